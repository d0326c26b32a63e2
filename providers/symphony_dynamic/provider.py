"""The base classes of symphony's dynamic providers and their resources."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    ResourceProvider,
    UpdateResult,
)
from pulumi.output import Unknown
from pulumi.runtime import rpc

from symphony.errors import UserError

Props = dict[str, Any]
Run = TypeVar("Run", contravariant=True)
# The inputs that `check` adds, by their names in users' states: the reason of a repair, and the undeclared
# processes. A plain `pulumi preview` shows them.
REASON, ORPHANS = "repair", "strays"


class WrongInput(UserError):
    """An input has a wrong type, or a name has invalid characters."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


@dataclass(frozen=True, slots=True)
class Difference:
    """The changed fields, and those of them that force a replacement."""

    changed: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()


class DynamicProvider(ResourceProvider):
    """A provider whose state is not secret as a whole: the declarations mark secrets."""

    serialize_as_secret_always = False

    @classmethod
    def state_text(cls) -> str:
        """Return the text by which states refer to this provider.

        Pickle protocol 4, by reference, no attributes: the state of every user contains it, so it must not
        change.
        """
        return base64.b64encode(pickle.dumps(cls(), protocol=4)).decode()


# Not pulumi.dynamic.Resource, which raises RecursionError after some hundred resources.
class DynamicResource(pulumi.CustomResource):
    """A resource of such a provider; TYPE, PROVIDER: its type and its provider in the state of every user."""

    TYPE: ClassVar[str]
    PROVIDER: ClassVar[str]

    def __init__(
        self, resource_name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, resource_name, {**inputs, "__provider": self.PROVIDER}, opts)


class Crud(Protocol[Run]):
    """A module with the operations of one resource; Run: the state that the calls of one run share.

    `repairs` returns inputs that `check` adds, so that a resource that must be repaired has a difference.
    """

    @property
    def IDENTITY(self) -> tuple[str, ...]: ...

    def inputs_of(self, props: Mapping[str, Any], /) -> object: ...
    def repairs(self, news: Props, old_inputs: Props, run: Run, /) -> Props: ...
    def diff(self, olds: Props, news: Props, run: Run, /) -> Difference: ...
    def create(self, props: Props, run: Run, /) -> tuple[str, Props]: ...
    def read(self, props: Props, run: Run, /) -> Props | None: ...
    def update(self, olds: Props, news: Props, run: Run, /) -> Props: ...
    def delete(self, props: Props, run: Run, /) -> None: ...


class CrudProvider(DynamicProvider, Generic[Run]):
    """A provider that delegates to the functions of a module."""

    _crud: ClassVar[Crud[Any]]
    _run: ClassVar[Any]

    def check(self, olds: Props, news: Props) -> CheckResult:
        news = without(news, REASON, ORPHANS)
        if _is_unknown(news):
            return CheckResult(news, [])
        try:
            self._crud.inputs_of(news)
        except WrongInput as wrong:
            return CheckResult(news, [CheckFailure(wrong.field, wrong.reason)])
        if is_same(olds, news, self._crud.IDENTITY):
            repairs = self._crud.repairs(news, olds, self._run)
            news |= {name: value for name, value in repairs.items() if value}
        return CheckResult(news, [])

    def diff(self, _id: str, olds: Props, news: Props) -> DiffResult:
        if _is_unknown(news):
            return DiffResult(True)
        result = self._crud.diff(olds, news, self._run)
        return DiffResult(bool(result.changed), list(result.replaced), delete_before_replace=True)

    def create(self, props: Props) -> CreateResult:
        return CreateResult(*self._crud.create(props, self._run))

    def read(self, id_: str, props: Props) -> ReadResult:
        result = self._crud.read(props, self._run)
        return ReadResult(None, {}) if result is None else ReadResult(id_, result)

    def update(self, _id: str, olds: Props, news: Props) -> UpdateResult:
        return UpdateResult(self._crud.update(olds, news, self._run))

    def delete(self, _id: str, props: Props) -> None:
        self._crud.delete(props, self._run)


def without(props: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the properties without these names."""
    return {name: value for name, value in props.items() if name not in names}


def is_same(olds: Mapping[str, Any], news: Mapping[str, Any], identity: Collection[str]) -> bool:
    """Return whether the state and the program describe the same resource."""
    return bool(olds) and all(olds.get(name) == news.get(name) for name in identity)


def _is_unknown(value: object) -> bool:
    """Return whether the value contains one that is known only after other resources exist."""
    if isinstance(value, dict):
        return any(map(_is_unknown, value.values()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    if isinstance(value, list):
        return any(map(_is_unknown, value))  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(value, Unknown) or value == rpc.UNKNOWN
