"""The resources Session and Window and their dynamic providers; sessions.py and windows.py do the work.

Module path and class names of the providers lie in the state of every user: never move or rename them.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, cast

import pulumi
from pulumi.dynamic import CheckFailure, CheckResult, CreateResult, DiffResult, ReadResult, UpdateResult
from pulumi.output import Unknown
from pulumi.runtime import rpc

from symphony.paths import DEFAULT_SERVER
from symphony_dynamic.provider import DynamicProvider, is_same, without
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import sessions, windows
from symphony_tmux.resource.changes import ORPHANS, REASON, Difference
from symphony_tmux.resource.inputs import WrongInput

Props = dict[str, Any]
_run = Snapshot()


class _Crud(Protocol):
    """The operations of one resource over plain dicts: a module."""

    @property
    def IDENTITY(self) -> tuple[str, ...]: ...

    def inputs_of(self, props: Mapping[str, Any], /) -> object: ...
    def repairs(self, news: Props, old_inputs: Props, snapshot: Snapshot, /) -> Props: ...
    def diff(self, olds: Props, news: Props, snapshot: Snapshot, /) -> Difference: ...
    def create(self, props: Props, snapshot: Snapshot, /) -> tuple[str, Props]: ...
    def read(self, props: Props, snapshot: Snapshot, /) -> Props | None: ...
    def update(self, olds: Props, news: Props, snapshot: Snapshot, /) -> Props: ...
    def delete(self, props: Props, snapshot: Snapshot, /) -> None: ...


class _Provider(DynamicProvider):
    _crud: ClassVar[_Crud]

    def check(self, _olds: Props, news: Props) -> CheckResult:
        news = without(news, REASON, ORPHANS)
        if _is_unknown(news):
            return CheckResult(news, [])
        try:
            self._crud.inputs_of(news)
        except WrongInput as wrong:
            return CheckResult(news, [CheckFailure(wrong.field, wrong.reason)])
        if is_same(_olds, news, self._crud.IDENTITY):
            repairs = self._crud.repairs(news, _olds, _run)
            news |= {name: value for name, value in repairs.items() if value}
        return CheckResult(news, [])

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        if _is_unknown(_news):
            return DiffResult(True)
        result = self._crud.diff(_olds, _news, _run)
        return DiffResult(bool(result.changed), list(result.replaced), delete_before_replace=True)

    def create(self, props: Props) -> CreateResult:
        return CreateResult(*self._crud.create(props, _run))

    def read(self, id_: str, props: Props) -> ReadResult:
        result = self._crud.read(props, _run)
        return ReadResult(None, {}) if result is None else ReadResult(id_, result)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        return UpdateResult(self._crud.update(_olds, _news, _run))

    def delete(self, _id: str, _props: Props) -> None:
        self._crud.delete(_props, _run)


class SessionProvider(_Provider):
    """The dynamic provider of Session."""

    _crud = sessions


class WindowProvider(_Provider):
    """The dynamic provider of Window."""

    _crud = windows


# Protocol 4, by reference, no attributes: these bytes lie in the state of every user and must never change.
SESSION_PROVIDER = base64.b64encode(pickle.dumps(SessionProvider(), protocol=4)).decode()
WINDOW_PROVIDER = base64.b64encode(pickle.dumps(WindowProvider(), protocol=4)).decode()
SESSION_TYPE = "pulumi-python:dynamic/symphony_tmux:Session"
WINDOW_TYPE = "pulumi-python:dynamic/symphony_tmux:Window"


# Subclasses of CustomResource: pulumi.dynamic.Resource raises RecursionError after some hundred resources.
class Session(pulumi.CustomResource):
    """One experiment: a tmux session, files, port leases; deleting it takes down every process in it.

    Its inputs are the fields of SessionInputs.
    """

    def __init__(
        self, resource_name: str, opts: pulumi.ResourceOptions | None = None, **inputs: pulumi.Input[Any]
    ) -> None:
        super().__init__(SESSION_TYPE, resource_name, _props(inputs, SESSION_PROVIDER), opts)


class Window(pulumi.CustomResource):
    """One process: a tmux window that runs argv (no shell) or script (shell lines); one of the two.

    Its inputs are the fields of WindowInputs, and secret_digests, which stand for the values of secret_env.
    """

    def __init__(
        self,
        resource_name: str,
        opts: pulumi.ResourceOptions | None = None,
        *,
        secret_env: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        **inputs: pulumi.Input[Any],
    ) -> None:
        if secret_env:
            inputs["secret_env"] = pulumi.Output.secret(secret_env)
        super().__init__(WINDOW_TYPE, resource_name, _props(inputs, WINDOW_PROVIDER), opts)


def _props(inputs: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """Return the properties that are set; each one more costs the program more than linear time."""
    inputs = {"server": DEFAULT_SERVER, "grace": 5, **inputs}
    set_inputs = {name: _plain(value) for name, value in inputs.items() if value not in (None, (), {})}
    return {**set_inputs, "__provider": provider}


def _plain(value: Any) -> Any:
    """Return a list for a tuple, which Pulumi does not know."""
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def _is_unknown(value: object) -> bool:
    """Return whether a value in it is only known once other resources exist."""
    if isinstance(value, dict):
        return any(map(_is_unknown, value.values()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    if isinstance(value, list):
        return any(map(_is_unknown, value))  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(value, Unknown) or value == rpc.UNKNOWN
