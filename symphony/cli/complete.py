"""Names that the shell offers: experiments, programs, processes, services; none after an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import typer

from symphony.errors import SymphonyError


def experiments(incomplete: str) -> list[str]:
    """Return the experiments."""
    return _offered(incomplete, _experiments)


def programs(incomplete: str) -> list[str]:
    """Return the stacks and the programs of the project here."""
    return _offered(incomplete, _programs)


def process(context: typer.Context, incomplete: str) -> list[str]:
    """Return words for `[EXPERIMENT] PROCESS`."""
    return _after_experiment(context, incomplete, _processes, most=2)


def processes(context: typer.Context, incomplete: str) -> list[str]:
    """Return words for `[EXPERIMENT] [PROCESS]...`."""
    return _after_experiment(context, incomplete, lambda word: [*_processes(word), *_groups(word)])


def service(context: typer.Context, incomplete: str) -> list[str]:
    """Return words for `[EXPERIMENT] [SERVICE]`."""
    return _after_experiment(context, incomplete, _services, most=2)


def copied(context: typer.Context, incomplete: str) -> list[str]:
    """Return `PROCESS:` for both of `[EXPERIMENT] SOURCE TARGET`; the shell adds files."""
    return _after_experiment(
        context, incomplete, lambda word: [f"{path}:" for path in _processes(word)], most=3
    )


def _after_experiment(
    context: typer.Context,
    incomplete: str,
    names: Callable[[str | None], Iterable[str]],
    most: int | None = None,
) -> list[str]:
    words: list[str] = list(context.params.get("words") or ())
    if context.obj is not None or (most is not None and len(words) >= most):
        return []
    if not words:
        return list(dict.fromkeys([*experiments(incomplete), *_offered(incomplete, lambda: names(None))]))
    offered = _offered(incomplete, lambda: names(words[0])) or _offered(incomplete, lambda: names(None))
    return [name for name in offered if name not in words]


def _offered(incomplete: str, names: Callable[[], Iterable[str]]) -> list[str]:
    with suppress(SymphonyError, OSError):
        return [name for name in names() if name.startswith(incomplete)]
    return []


def _experiments() -> Iterable[str]:
    from symphony.operations import stacks

    return stacks.labels(stack.name for stack in stacks.every() if stack.recorded is not None).values()


def _programs() -> Iterable[str]:
    from symphony.operations import stack_target

    return stack_target.names_here()


def _processes(word: str | None) -> Iterable[str]:
    from symphony.operations import stacks

    return stacks.find(word).processes


def _groups(word: str | None) -> Iterable[str]:
    return dict.fromkeys(path.partition("/")[0] for path in _processes(word) if "/" in path)


def _services(word: str | None) -> Iterable[str]:
    from symphony.operations import stacks

    return stacks.addresses(stacks.find(word))
