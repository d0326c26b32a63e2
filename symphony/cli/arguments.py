"""Arguments that commands share: types, shell completion, and the experiments and processes they name."""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Annotated

import typer

from symphony.backends.access import Streams
from symphony.cli.screen import clean
from symphony.errors import SymphonyError, UserError
from symphony.operations import stacks
from symphony.operations.stacks import match, match_processes
from symphony.plan.names import listed, sort_key


def complete_experiments(incomplete: str) -> list[str]:
    """Return the names of experiments for shell completion."""
    recorded = (stack.name for stack in stacks.every() if stack.recorded is not None)
    return _names_beginning_with(incomplete, lambda: stacks.labels(recorded).values())


def complete_programs(incomplete: str) -> list[str]:
    """Return the stacks and programs of the current project for shell completion."""
    from symphony.operations import selected_stack

    return _names_beginning_with(incomplete, selected_stack.names_here)


def _completer(
    names: Callable[[stacks.Stack], Iterable[str]], most: float = math.inf
) -> Callable[[typer.Context, str], list[str]]:
    """Return a function that completes the next word: an experiment, or a name in an experiment.

    names: returns the names in an experiment. most: the number of words that the command takes.
    """

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        words: list[str] = list(context.params.get("words") or ())
        # Parser of exec.py sets context.obj if `--` was typed: what follows it is not completed.
        if context.obj is not None or len(words) >= most:
            return []
        unnamed = _names_beginning_with(incomplete, lambda: names(stacks.find(None)))
        if not words:
            return list(dict.fromkeys([*complete_experiments(incomplete), *unnamed]))
        offered = _names_beginning_with(incomplete, lambda: names(stacks.find(words[0]))) or unnamed
        return [name for name in offered if name not in words]

    return complete


complete_process = _completer(lambda stack: stack.processes, most=2)
complete_processes = _completer(lambda stack: [*stack.processes, *_groups(stack)])
complete_service = _completer(stacks.addresses, most=2)
# `PROCESS:` for SOURCE and TARGET; the shell adds files.
complete_copy = _completer(lambda stack: [f"{path}:" for path in stack.processes], most=3)


def _names_beginning_with(incomplete: str, names: Callable[[], Iterable[str]]) -> list[str]:
    """Return the names that begin with the incomplete word; empty after an error."""
    with suppress(SymphonyError, OSError):
        return [name for name in names() if name.startswith(incomplete)]
    return []


def _groups(stack: stacks.Stack) -> Iterable[str]:
    return dict.fromkeys(path.partition("/")[0] for path in stack.processes if "/" in path)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Force = Annotated[bool, typer.Option("--yes", "-y", "--force", "-f", help="Do not ask for confirmation.")]
Config = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-c", metavar="KEY=VALUE", help="Set a parameter or setting; `up` keeps it in the stack."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", "-dr", help="Show what would be done; change nothing.")]
Experiment = Annotated[
    str | None,
    typer.Argument(
        metavar="[EXPERIMENT]", help="Name of the experiment.", autocompletion=complete_experiments
    ),
]
Program = Annotated[
    str | None,
    typer.Argument(
        metavar="[STACK]",
        help="Name of the stack; optional if the project has a single program. With several programs,"
        " NAME and NAME.SUFFIX run program NAME.",
        autocompletion=complete_programs,
    ),
]
Process = Annotated[
    list[str],
    typer.Argument(
        metavar="[EXPERIMENT] PROCESS",
        help="The process, or group/process.",
        autocompletion=complete_process,
    ),
]
Processes = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[EXPERIMENT] [PROCESS]...",
        help="Processes, groups, patterns such as 'worker-*'; all by default.",
        autocompletion=complete_processes,
    ),
]


def experiment(word: str | None) -> stacks.Stack:
    """Return the experiment with a name; without a name, the current experiment."""
    return _announce(stacks.find(word))


def _recorded(stack: stacks.Stack) -> Iterable[str]:
    return require_up(stack).processes


def processes(
    words: Sequence[str], known: Callable[[stacks.Stack], Iterable[str]] = _recorded
) -> tuple[stacks.Stack, Sequence[str]]:
    """Return the experiment and the process words of `[EXPERIMENT] [PROCESS]...`, as `process` does."""
    return split(words, lambda stack, names: match_processes(names, list(known(stack))))


def process(
    words: Sequence[str], known: Callable[[stacks.Stack], Iterable[str]] = _recorded
) -> tuple[stacks.Stack, str]:
    """Return the experiment and the process of `[EXPERIMENT] PROCESS`.

    `known` returns the processes of an experiment that may be named.
    """
    if not 1 <= len(words) <= 2:
        what = f"expected a process, or an experiment and a process, but got {len(words)} names"
        raise UserError(what, remedy="`symphony ls` and `symphony process` list the names")

    def check(stack: stacks.Stack, names: Sequence[str]) -> None:
        if len(names) > 1:
            raise UserError("only a single process may be named", remedy="Write EXPERIMENT PROCESS")
        match(names[0], known(stack), "process")

    stack, names = split(words, check, required=1)
    if not names:
        paths = listed(sorted(known(stack), key=sort_key))
        what = f"this command needs a process of {stack.display_name}"
        raise UserError(what, remedy=f"Name one of: {paths}")
    return stack, match(names[0], known(stack), "process")


def require_up(stack: stacks.Stack) -> stacks.Stack:
    """Return the experiment; raise UserError if it is not up."""
    if stack.recorded is None:
        raise stack.not_up()
    return stack


def split(
    words: Sequence[str], check: Callable[[stacks.Stack, Sequence[str]], object], required: int = 0
) -> tuple[stacks.Stack, Sequence[str]]:
    """Return the experiment and the names, if any, of `[EXPERIMENT] [NAME]...`.

    The first word is the experiment if it is the full name of one and at least `required` words follow, or if
    the words are not names in the current experiment: `check` then raises UserError.
    """
    if not words:
        return experiment(None), []
    exact = stacks.find_exact(words[0])
    is_full_name = exact is not None and exact.recorded is not None
    if not (is_full_name and len(words[1:]) >= required):
        try:
            stack = stacks.find(None)
            check(stack, words)
            return _announce(stack), words
        except UserError as error:
            if len(words) <= required and not is_full_name:
                raise
            unnamed = error
        try:
            return experiment(words[0]), words[1:]
        except UserError as error:
            if len(words) > 1 and stacks.find_exact(words[-1]) is not None:
                right = " ".join([words[-1], *words[:-1]])
                raise UserError(error.what, remedy=f"Put the experiment's name first: {right}") from None
            raise (error if len(words) > 1 else unnamed) from None
    return experiment(words[0]), words[1:]


def _announce(stack: stacks.Stack) -> stacks.Stack:
    """Return the stack; print its name if no word chose it among several of the current project."""
    if stack.is_current:
        note = f"symphony: {clean(stack.display_name)}, the current experiment (`symphony switch` chooses it)"
        print(note, file=sys.stderr, flush=True)
    return stack


def is_terminal() -> bool:
    """Return whether both standard input and output are a terminal."""
    # A stream that the caller closed is None.
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))  # pyright: ignore[reportUnnecessaryComparison]


def streams() -> Streams:
    """Return the streams of this program, for a command that runs in its place."""
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdout.flush()
    return Streams(terminal=is_terminal())


def require_yes(*, as_json: bool, yes: bool) -> None:
    """Raise UserError if a command would have to ask, but prints JSON."""
    if as_json and not yes:
        raise UserError("--json cannot ask for confirmation", remedy="Add -y")


def confirm(question: str) -> None:
    """Ask for confirmation, and end the command unless the answer is yes.

    Raises:
        UserError: There is no terminal.
        typer.Exit: The answer is not yes.
    """
    if not is_terminal():
        raise UserError("cannot ask for confirmation without a terminal", remedy="Add -y to proceed")
    try:
        answer = input(f"{clean(question)} [y/N] ")
    except EOFError:
        print()
        answer = ""
    except KeyboardInterrupt:
        print("\nNothing was changed.")
        raise typer.Exit(130) from None
    if answer.strip().lower() not in ("y", "yes"):
        print("Nothing was changed.")
        raise typer.Exit(1)
