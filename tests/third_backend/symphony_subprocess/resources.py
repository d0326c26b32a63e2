"""The two dynamic resources and their providers, which Pulumi's host of dynamic providers unpickles."""

from __future__ import annotations

import base64
import pickle
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ResourceProvider, UpdateResult

from symphony_subprocess import folders, processes

EXPERIMENT_TYPE = "pulumi-python:dynamic/symphony_subprocess:Experiment"
PROCESS_TYPE = "pulumi-python:dynamic/symphony_subprocess:Process"
Props = dict[str, Any]


class ExperimentProvider(ResourceProvider):
    """Whose files they are, and where its services are."""

    serialize_as_secret_always = False

    def create(self, props: Props) -> CreateResult:
        folders.note(props["owner"], props["name"], props["services"])
        return CreateResult(props["owner"], _plain(props))

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        return DiffResult(folders.services(_news["owner"]) != _news["services"])

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        return UpdateResult(self.create(_news).outs)

    def delete(self, _id: str, _props: Props) -> None:
        processes.remove(_props["owner"], None, _props["grace"])


class ProcessProvider(ResourceProvider):
    """One process."""

    serialize_as_secret_always = False

    def create(self, props: Props) -> CreateResult:
        attempt = processes.ensure(props, 1)
        return CreateResult(f"{props['owner']}/{props['path']}", {**_plain(props), "attempt": attempt})

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        changed = any(_olds.get(name) != _news.get(name) for name in processes.SETTINGS)
        return DiffResult(changed or not processes.is_good(_news["owner"], _news["path"]))

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        attempt = processes.ensure(_news, int(_olds["attempt"]) + 1)
        return UpdateResult({**_plain(_news), "attempt": attempt})

    def delete(self, _id: str, _props: Props) -> None:
        processes.remove(_props["owner"], _props["path"], _props["grace"])


class Experiment(pulumi.CustomResource):
    def __init__(self, name: str, inputs: Props, options: pulumi.ResourceOptions) -> None:
        super().__init__(EXPERIMENT_TYPE, name, _with(inputs, ExperimentProvider()), options)


class Process(pulumi.CustomResource):
    def __init__(self, name: str, inputs: Props, options: pulumi.ResourceOptions) -> None:
        super().__init__(PROCESS_TYPE, name, _with(inputs, ProcessProvider()), options)


def _with(inputs: Props, provider: ResourceProvider) -> Props:
    return {**inputs, "__provider": base64.b64encode(pickle.dumps(provider, protocol=4)).decode()}


def _plain(props: Props) -> Props:
    return {name: value for name, value in props.items() if name != "__provider"}
