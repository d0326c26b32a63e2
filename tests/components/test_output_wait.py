"""The wait for a program's outputs: in linear time, with the errors that the SDK would raise."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, cast

import pytest
from pulumi.runtime import stack
from pulumi.runtime.settings import SETTINGS

from symphony.components import output_wait

COUNT = 300


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The wait of the SDK, and no outputs, before and after."""
    monkeypatch.setattr(stack, "wait_for_rpcs", stack.wait_for_rpcs)
    _outputs().clear()
    yield
    _outputs().clear()


def _outputs() -> set[asyncio.Task[Any]]:
    return cast("set[asyncio.Task[Any]]", SETTINGS.outputs)  # type: ignore[attr-defined]


def _run(program: Coroutine[Any, Any, None]) -> None:
    """asyncio.run, which however leaves the thread without a loop, that later tests of Pulumi need."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(program)
    finally:
        loop.close()


def _output(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(work)
    _outputs().add(task)
    return task


async def _failing() -> None:
    raise ValueError("the provider failed")


def test_each_output_is_waited_for_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = 0
    wait = asyncio.wait

    async def counting(outputs: Any, **more: Any) -> Any:
        nonlocal waited
        waited += len(outputs)
        return await wait(outputs, **more)

    async def ending_in_turn(number: int) -> None:
        for _ in range(number):
            await asyncio.sleep(0)

    async def program() -> None:
        for number in range(COUNT):
            _output(ending_in_turn(number))
        await stack.wait_for_rpcs()

    monkeypatch.setattr(asyncio, "wait", counting)
    output_wait.wait_linearly()
    _run(program())
    assert not _outputs()
    assert COUNT / 2 < waited < COUNT * 3


def test_the_first_error_is_raised_while_other_outputs_are_not_there() -> None:
    async def program() -> None:
        _output(asyncio.sleep(3600))
        _output(_failing())
        await stack.wait_for_rpcs()

    output_wait.wait_linearly()
    with pytest.raises(ValueError, match="the provider failed"):
        _run(program())


def test_an_output_made_meanwhile_that_fails_is_raised() -> None:
    async def program() -> None:
        _output(asyncio.sleep(3600))
        asyncio.get_running_loop().call_later(0.1, lambda: _output(_failing()))
        await stack.wait_for_rpcs()

    output_wait.wait_linearly()
    with pytest.raises(ValueError, match="the provider failed"):
        _run(program())


def test_an_output_that_another_makes_is_waited_for() -> None:
    made: list[str] = []

    async def second() -> None:
        await asyncio.sleep(0.05)
        made.append("second")

    async def first() -> None:
        _output(second())

    async def program() -> None:
        _output(first())
        await stack.wait_for_rpcs()

    output_wait.wait_linearly()
    _run(program())
    assert made == ["second"]


def test_outputs_are_left_alone_by_who_does_not_wait_for_them() -> None:
    async def program() -> None:
        left = _output(asyncio.sleep(3600))
        await stack.wait_for_rpcs(await_all_outstanding_tasks=False)
        assert _outputs() == {left}
        left.cancel()

    output_wait.wait_linearly()
    _run(program())


def test_the_code_of_another_sdk_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async def of_another_sdk() -> None: ...

    monkeypatch.setattr(output_wait, "_original", of_another_sdk)
    monkeypatch.setattr(stack, "wait_for_rpcs", of_another_sdk)
    output_wait.wait_linearly()
    assert stack.wait_for_rpcs is of_another_sdk
