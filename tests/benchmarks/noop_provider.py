"""A dynamic provider that does nothing: what the engine itself costs."""

from __future__ import annotations

import base64
import pickle
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ResourceProvider


class NoopProvider(ResourceProvider):
    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult(props["name"], props)

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        return DiffResult(changes=False)


PROVIDER = base64.b64encode(pickle.dumps(NoopProvider(), protocol=4)).decode()


class Noop(pulumi.CustomResource):
    def __init__(self, name: str, parent: pulumi.Resource | None = None) -> None:
        super().__init__(
            "pulumi-python:dynamic/noop_provider:Noop",
            name,
            {"name": name, "__provider": PROVIDER},
            pulumi.ResourceOptions(parent=parent),
        )
