"""The two dynamic providers as Pulumi unpickles them; they leave the work to sessions and windows.

Module path and class names lie in the state of every user: never move or rename them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    ConfigureRequest,
    CreateResult,
    DiffResult,
    ReadResult,
    ResourceProvider,
    UpdateResult,
)
from pulumi.output import Unknown
from pulumi.runtime import rpc

from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import host_patches, inputs, sessions, windows
from symphony_tmux.resource.inputs import Problem

# Shown in the plan as an input that changes, so that a plain `pulumi preview` says why.
REASON = "repair"
STRAYS = "strays"
Props = dict[str, Any]
_run = Snapshot()


class SessionProvider(ResourceProvider):
    """CRUD of a Session resource."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:
        del req
        host_patches.adapt()

    def check(self, _olds: Props, news: Props) -> CheckResult:
        news = _without(news, REASON, STRAYS)
        problems = [] if _is_unknown(news) else inputs.session_problems(news)
        if not problems and not _is_unknown(news) and _is_same(_olds, news, sessions.REPLACED):
            news |= _said(REASON, sessions.reason(_olds, _run)) | _said(
                STRAYS, sessions.strays(news, _olds, _run)
            )
        return _checked(news, problems)

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        if _is_unknown(_news):
            return DiffResult(True)
        result = sessions.diff(_olds, _news, _run)
        return DiffResult(bool(result.changed), list(result.replaced), delete_before_replace=True)

    def create(self, props: Props) -> CreateResult:
        return CreateResult(*sessions.create(props, _run))

    def read(self, id_: str, props: Props) -> ReadResult:
        result = sessions.read(props, _run)
        return ReadResult(None, {}) if result is None else ReadResult(id_, result)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        return UpdateResult(sessions.update(_olds, _news, _run))

    def delete(self, _id: str, _props: Props) -> None:
        sessions.delete(_props, _run)


class WindowProvider(ResourceProvider):
    """CRUD of a Window resource."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:
        del req
        host_patches.adapt()

    def check(self, _olds: Props, news: Props) -> CheckResult:
        news = _without(news, REASON)
        problems = [] if _is_unknown(news) else inputs.window_problems(news)
        if (
            not problems
            and not _is_unknown(news)
            and _is_same(_olds, news, ("server", "session", "owner", "path"))
        ):
            news |= _said(REASON, windows.reason(_olds, _run))
        return _checked(news, problems)

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        if _is_unknown(_news):
            return DiffResult(True)
        result = windows.diff(_olds, _news, _run)
        return DiffResult(bool(result.changed), list(result.replaced), delete_before_replace=True)

    def create(self, props: Props) -> CreateResult:
        return CreateResult(*windows.create(props, _run))

    def read(self, id_: str, props: Props) -> ReadResult:
        result = windows.read(props, _run)
        return ReadResult(None, {}) if result is None else ReadResult(id_, result)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        return UpdateResult(windows.update(_olds, _news, _run))

    def delete(self, _id: str, _props: Props) -> None:
        windows.delete(_props, _run)


def _checked(news: Props, problems: list[Problem]) -> CheckResult:
    return CheckResult(news, [CheckFailure(problem.field, problem.reason) for problem in problems])


def _said(name: str, value: str | list[str]) -> Props:
    return {name: value} if value else {}


def _without(props: Props, *named: str) -> Props:
    return {name: value for name, value in props.items() if name not in named}


def _is_same(olds: Mapping[str, Any], news: Mapping[str, Any], identity: tuple[str, ...]) -> bool:
    """There is a resource in state, and the program means that one."""
    return bool(olds) and all(olds.get(name) == news.get(name) for name in identity)


def _is_unknown(value: object) -> bool:
    """Some value in it is only known when the resources before it are made."""
    if isinstance(value, dict):
        return any(map(_is_unknown, value.values()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    if isinstance(value, list):
        return any(map(_is_unknown, value))  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(value, Unknown) or value == rpc.UNKNOWN
