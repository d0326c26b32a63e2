"""What the shell offers for experiments, programs, processes and services; an error offers nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import typer

from symphony.errors import SymphonyError


def experiments(incomplete: str) -> list[str]:
    """The experiments there are."""
    return _offered(incomplete, _experiments)


def programs(incomplete: str) -> list[str]:
    """The stacks of the project here, and the programs that could be one."""
    return _offered(incomplete, _programs)


def process(context: typer.Context, incomplete: str) -> list[str]:
    """For `[EXPERIMENT] PROCESS`."""
    return _second(context, incomplete, _processes, most=2)


def processes(context: typer.Context, incomplete: str) -> list[str]:
    """For `[EXPERIMENT] [PROCESS]...`."""
    return _second(context, incomplete, lambda given: [*_processes(given), *_groups(given)])


def service(context: typer.Context, incomplete: str) -> list[str]:
    """For `[EXPERIMENT] [SERVICE]`."""
    return _second(context, incomplete, _services, most=2)


def copied(context: typer.Context, incomplete: str) -> list[str]:
    """For `[EXPERIMENT] SOURCE TARGET`: `PROCESS:` for either; else the shell offers files."""
    return _second(context, incomplete, lambda given: [f"{path}:" for path in _processes(given)], most=3)


def _second(
    context: typer.Context,
    incomplete: str,
    names: Callable[[str | None], Iterable[str]],
    most: int | None = None,
) -> list[str]:
    """What may follow the words so far: at first an experiment or a name of the current one."""
    words: list[str] = list(context.params.get("words") or ())
    if context.obj is not None or (most is not None and len(words) >= most):
        return []
    if not words:
        return list(dict.fromkeys([*experiments(incomplete), *_offered(incomplete, lambda: names(None))]))
    result = _offered(incomplete, lambda: names(words[0])) or _offered(incomplete, lambda: names(None))
    return [name for name in result if name not in words]


def _offered(incomplete: str, names: Callable[[], Iterable[str]]) -> list[str]:
    with suppress(SymphonyError, OSError):
        return [name for name in names() if name.startswith(incomplete)]
    return []


def _experiments() -> Iterable[str]:
    from symphony.operations import stacks

    there = (stack.name for stack in stacks.every() if stack.recorded is not None)
    return stacks.labels(there).values()


def _programs() -> Iterable[str]:
    from symphony.operations import stack_target

    return stack_target.names_here()


def _processes(given: str | None) -> Iterable[str]:
    from symphony.operations import stacks

    stack = stacks.find_one(given)
    return stack.recorded.processes if stack.recorded else ()


def _groups(given: str | None) -> Iterable[str]:
    return dict.fromkeys(path.partition("/")[0] for path in _processes(given) if "/" in path)


def _services(given: str | None) -> Iterable[str]:
    from symphony.operations import stacks

    return stacks.addresses(stacks.find_one(given))
