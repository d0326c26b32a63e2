"""Asks which one when a name matches several and there is a person to ask."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import typer

from symphony.backends.access import Streams
from symphony.cli.screen import clean
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.logs import chosen
from symphony.operations.matching import AmbiguousError, match
from symphony.operations.process import in_order
from symphony.plan.names import listed

_T = TypeVar("_T")


def experiment(given: str | None) -> stacks.Stack:
    """Return the experiment that a name means, or that a command without a name means."""
    stack = asking(stacks.find_one, given)
    if stack.is_switched_to:
        print(f"symphony: {clean(stack.shown)}, chosen with `symphony switch`", file=sys.stderr, flush=True)
    return stack


def process(words: Sequence[str]) -> tuple[stacks.Stack, str]:
    """The process that `[EXPERIMENT] PROCESS` means, and its experiment."""
    return of_process(words, lambda stack, given: (stack, process_of(stack, given)))


def processes(words: Sequence[str]) -> tuple[stacks.Stack, Sequence[str]]:
    """The experiment and the processes: it comes first, or is the current one, or comes last."""
    if not words:
        return experiment(None), []
    if (stack := current_with(words, _names)) is not None:
        return stack, words
    words = experiment_first(words)
    ways: list[tuple[str | None, Sequence[str]]] = [(words[0], words[1:]), (None, words)]
    if len(words) > 1:
        ways.append((words[-1], words[:-1]))
    errors: list[UserError] = []
    for name, message in ways:
        try:
            # Only the usual way is worth a question.
            stack = stacks.find_one(name) if errors else experiment(name)
            chosen(list(stack.recorded.processes) if stack.recorded else [], message)
        except UserError as error:
            if isinstance(error, AmbiguousError) and not errors:
                raise
            errors.append(error)
        else:
            return stack, message
    raise errors[0]


def _names(stack: stacks.Stack) -> Iterator[str]:
    """What a process or a group of an experiment is called, whole or without its group."""
    for path in stack.recorded.processes if stack.recorded else ():
        group, _, name = path.rpartition("/")
        yield from (path, name, group)


def of_process(words: Sequence[str], ask: Callable[[stacks.Stack, str], _T]) -> _T:
    """What ask() answers to the experiment and the process of `[EXPERIMENT] PROCESS`.

    UserError: no such process; of an experiment alone, with the processes that it has.
    """
    if not 1 <= len(words) <= 2:
        raise UserError("name one process, or an experiment and a process", remedy="See `symphony ls`")
    try:
        if len(words) == 2:
            return in_either_order(words, ask)
        return ask(experiment(None), words[0])
    except AmbiguousError:
        raise
    except UserError:
        named = stacks.named(words[0]) if len(words) == 1 else None
        if named is None or named.recorded is None:
            raise
    paths = sorted(named.recorded.processes, key=in_order)
    raise UserError(
        f"which process of {named.shown}?",
        remedy=f"Name one of: {listed(paths)}",
    )


def in_either_order(words: Sequence[str], ask: Callable[[stacks.Stack, str], _T]) -> _T:
    """What ask() answers to an experiment and a name in it. UserError: of the usual order."""
    first, second = experiment_first(words)
    # Only the usual order is worth a question.
    return either(lambda: ask(experiment(first), second), lambda: ask(stacks.find_one(second), first))


def either(usual: Callable[[], _T], other: Callable[[], _T]) -> _T:
    """What the usual reading of the words gives, else the other one. UserError: that of the usual one."""
    try:
        return usual()
    except AmbiguousError:
        raise
    except UserError as error:
        try:
            return other()
        except UserError:
            raise error from None


def current_with(words: Sequence[str], names: Callable[[stacks.Stack], Iterable[str]]) -> stacks.Stack | None:
    """The current experiment, if all words are names in it and the first is no experiment's own name."""
    if _is_experiment(words[0]):
        return None
    try:
        if not {*names(stacks.find_one(None))}.issuperset(words):
            return None
    except UserError:
        return None
    return experiment(None)


def experiment_first(words: Sequence[str]) -> Sequence[str]:
    """The words in the usual order, where the last is an experiment's own name and the first is none."""
    if len(words) > 1 and not _is_experiment(words[0]) and _is_experiment(words[-1]):
        return [words[-1], *words[:-1]]
    return words


def _is_experiment(word: str) -> bool:
    named = stacks.named(word)
    return named is not None and named.recorded is not None


def process_of(stack: stacks.Stack, given: str) -> str:
    """The path of the process of an experiment that a person means."""
    known = stack.recorded.processes if stack.recorded else ()
    return asking(lambda name: match(name or "", known, "process"), given)


def asking(find: Callable[[str | None], _T], given: str | None) -> _T:
    """What find() finds; where several match, the person says which one."""
    try:
        return find(given)
    except AmbiguousError as error:
        if not is_terminal():
            raise
        return find(_asked(error.candidates))


def is_terminal() -> bool:
    """Whether a person sits at both ends."""
    # A stream that the caller closed is None.
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))  # pyright: ignore[reportUnnecessaryComparison]


def require_terminal() -> None:
    """There is a person to ask, or the line that says there is none."""
    if not is_terminal():
        raise UserError("there is no terminal to ask on", remedy="Add -y to go on without asking")


def streams() -> Streams:
    """Those of this program, for a command that runs in its place."""
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdout.flush()
    return Streams(terminal=is_terminal())


def confirmed(question: str) -> bool:
    """Whether the person says yes; anything else, and the end of input, is no."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False
    except KeyboardInterrupt:
        print("\nNothing was changed.")
        raise typer.Exit(130) from None


def _asked(candidates: tuple[str, ...]) -> str:
    for number, name in enumerate(candidates, 1):
        print(f"  {number}  {clean(name)}")
    while True:
        try:
            answer = input("Which one? ").strip()
        except EOFError:
            raise KeyboardInterrupt from None
        if answer in candidates:
            return answer
        if answer.isdigit() and 1 <= int(answer) <= len(candidates):
            return candidates[int(answer) - 1]
