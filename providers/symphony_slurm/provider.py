"""The two dynamic providers as Pulumi unpickles them; they leave the work to allocations and steps.

Module path and class names lie in the state of every user: never move or rename them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from pulumi.dynamic import CheckFailure, CheckResult, CreateResult, DiffResult, ReadResult, UpdateResult

from symphony_dynamic.provider import DynamicProvider, is_same, without
from symphony_slurm import allocations, steps
from symphony_slurm.inputs import REASON, WrongInput

Props = dict[str, Any]


class _Crud(Protocol):
    """The operations of one resource over plain dicts: a module."""

    @property
    def IDENTITY(self) -> tuple[str, ...]: ...

    def inputs_of(self, props: Mapping[str, Any], /) -> object: ...
    def repairs(self, news: Props, old_inputs: Props, /) -> Props: ...
    def create(self, props: Props, /) -> tuple[str, Props]: ...
    def diff(self, olds: Props, news: Props, /) -> tuple[list[str], list[str]]: ...
    def read(self, props: Props, /) -> Props | None: ...
    def update(self, olds: Props, news: Props, /) -> Props: ...
    def delete(self, props: Props, /) -> None: ...


class _Provider(DynamicProvider):
    _crud: ClassVar[_Crud]

    def check(self, _olds: Props, news: Props) -> CheckResult:
        news = without(news, REASON)
        try:
            self._crud.inputs_of(without(news, "__provider"))
        except WrongInput as wrong:
            return CheckResult(news, [CheckFailure("", wrong.what)])
        if is_same(_olds, news, self._crud.IDENTITY):
            news |= self._crud.repairs(without(news, "__provider"), _olds)
        return CheckResult(news, [])

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        changed, replaced = self._crud.diff(_olds, _own(_news))
        return DiffResult(bool(changed), replaced, delete_before_replace=True)

    def create(self, props: Props) -> CreateResult:
        return CreateResult(*self._crud.create(_own(props)))

    def read(self, id_: str, props: Props) -> ReadResult:
        outputs = self._crud.read(_own(props))
        return ReadResult(None, {}) if outputs is None else ReadResult(id_, outputs)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        return UpdateResult(self._crud.update(_olds, _own(_news)))

    def delete(self, _id: str, _props: Props) -> None:
        self._crud.delete(_own(_props))


class AllocationProvider(_Provider):
    """The dynamic provider of Allocation."""

    _crud = allocations


class StepProvider(_Provider):
    """The dynamic provider of Step."""

    _crud = steps


def _own(props: Props) -> Props:
    return without(props, "__provider", REASON)
