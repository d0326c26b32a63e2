"""The `symphony` command: one row a command, each loaded only when used; every error ends here as one line.

A new command is a file symphony/cli/<name>.py with a function `command`, whose parameters are its options,
and a row in COMMANDS.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from symphony.errors import SymphonyError

if TYPE_CHECKING:
    from io import TextIOWrapper

    from typer import Typer

INTERRUPTED = 130
DEBUG_VARIABLE = "SYMPHONY_DEBUG"


_AS_JSON: Mapping[str, tuple[str, type]] = {"--json": ("as_json", bool)}
_OF_LOGS: Mapping[str, tuple[str, type]] = {
    **_AS_JSON,
    **dict.fromkeys(["-f", "--follow"], ("follow", bool)),
    **dict.fromkeys(["-s", "--since"], ("since", str)),
    **dict.fromkeys(["-t", "--tail"], ("tail", int)),
    "--times": ("times", bool),
}


class Row(NamedTuple):
    """One command; its module is symphony.cli.<name>, with _ for -.

    quick: "module:function", called without the parser, which takes longer than the answer, when nothing is
           said but names and `plain` options.
    names: how many of them the quick function takes, from the least to the most.
    plain: its options as the words for them, each the name of its parameter and its type.
    rest: what stands after `--` is not for the parser; the command finds it in its context, as `obj`, the
           quick function as `rest`.
    """

    name: str
    help: str
    aliases: tuple[str, ...] = ()
    quick: str = ""
    names: tuple[int, int] = (0, 0)
    plain: Mapping[str, tuple[str, type]] = _AS_JSON
    rest: bool = False

    @property
    def module(self) -> str:
        return f"symphony.cli.{self.name.replace('-', '_')}"


COMMANDS = (
    Row("up", "Run an experiment: plan, ask, start, watch."),
    Row("plan", "Show what `up` would start, restart and stop, and why."),
    Row("delete", "Stop an experiment and everything it started.", ("d",)),
    Row("delete-batch", "Stop several experiments, by name or pattern.", ("db",)),
    Row("ls", "List the experiments.", ("list-experiments", "lse"), quick="symphony.cli.listing:show"),
    Row(
        "process",
        "List the processes of an experiment.",
        ("p", "lsp", "list-processes"),
        quick="symphony.cli.processes:show",
        names=(0, 1),
    ),
    Row(
        "why", "Tell why a process is as it is, step by step.", quick="symphony.cli.chain:show", names=(1, 2)
    ),
    Row(
        "logs",
        "Show the output of processes, merged or of one.",
        ("l", "log"),
        quick="symphony.cli.output:show",
        names=(0, 9999),
        plain=_OF_LOGS,
    ),
    Row(
        "exec",
        "Run a command in a process: exec PROCESS -- COMMAND...",
        ("x",),
        quick="symphony.cli.inside:run",
        names=(1, 2),
        plain={},
        rest=True,
    ),
    Row("ssh", "Work in a process: its window in tmux, a shell in its container."),
    Row(
        "scp",
        "Copy files to and from a process, PROCESS:PATH.",
        ("cp",),
        quick="symphony.cli.copies:show",
        names=(2, 3),
        plain={},
    ),
    Row(
        "visit",
        "Open a service in the browser.",
        ("vi",),
        quick="symphony.cli.browser:visit",
        names=(0, 2),
        plain=dict.fromkeys(["-u", "--url-only"], ("url_only", bool)),
    ),
    Row(
        "switch", "Choose the experiment that is meant where none is named.", ("e", "se", "switch-experiment")
    ),
    Row("setup", "Get what is missing on this machine."),
    Row("doctor", "Show what is here, what is missing and how to get it."),
    Row("env", "Print the exports with which a plain `pulumi` uses the same state."),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if arguments is None:
        # This process is the command alone: looking for garbage is an eighth of its time with a large state.
        gc.set_threshold(50_000, 20, 20)
    words, debug = _take_debug(list(sys.argv[1:] if arguments is None else arguments))
    # A letter that the locale of the output lacks is a question mark, not the end of the command.
    with contextlib.suppress(AttributeError, ValueError):
        cast("TextIOWrapper", sys.stdout).reconfigure(errors="replace")
    code = 0
    try:
        code = _guarded(words, debug)
        # There is no standard output when the caller closed it.
        if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]
            sys.stdout.flush()
    except OSError as error:
        # `| head` closed the pipe, or the disk behind it is full: the flush at exit must not complain again.
        from symphony.cli import screen

        screen.silence()
        if isinstance(error, BrokenPipeError):
            return code
        complain(f"the output cannot be written: {error.strerror}.")
        return 1
    return code


def _guarded(words: list[str], debug: bool) -> int:
    try:
        return _dispatch(words)
    except KeyboardInterrupt:
        complain("interrupted.")
        return INTERRUPTED
    except SymphonyError as error:
        if debug:
            raise
        complain(error.line, error.details)
        return error.exit_code
    except OSError as error:
        # Without a file's name it is the output that failed: main() knows what to do.
        if (
            isinstance(error, BrokenPipeError)
            or (error.errno == errno.ENOSPC and not error.filename)
            or debug
        ):
            raise
        reason = f"{error.strerror or error}" + (f" ({error.filename})" if error.filename else "")
        complain(f"{reason}. Run it again with --debug to see where.")
        return 1
    except Exception as error:
        if debug:
            raise
        text = " ".join(str(error).split())
        complain(f"unexpected {type(error).__name__}: {text}. Run it again with --debug to see where.")
        return 1


def _dispatch(words: list[str]) -> int:
    row = find(words[0]) if words else None
    if row is None:
        return _overview(words)
    ours, rest = words[1:], None
    if row.rest and "--" in ours:
        end = ours.index("--")
        ours, rest = ours[:end], ours[end + 1 :]
    said = _plainly(row, ours) if row.quick else None
    if said is None:
        return _invoke(_app(row), ours, f"symphony {row.name}", rest)
    module, _, function = row.quick.partition(":")
    further = {"rest": rest} if row.rest else {}
    return getattr(importlib.import_module(module), function)(*said[0], **said[1], **further) or 0


def _plainly(row: Row, words: Sequence[str]) -> tuple[list[str], dict[str, Any]] | None:
    """The names and the options of a row that needs no parser; None where anything else is said."""
    names: list[str] = []
    options: dict[str, Any] = {}
    ahead = iter(words)
    for word in ahead:
        if not word.startswith("-"):
            names.append(word)
            continue
        name, kind = row.plain.get(word, ("", bool))
        value = "1" if kind is bool else next(ahead, "-")
        if not name or value.startswith("-") or (kind is int and not (value.isascii() and value.isdigit())):
            return None
        options[name] = kind(value)
    least, most = row.names
    return (names, options) if least <= len(names) <= most else None


def find(word: str) -> Row | None:
    """The row of a command's name or alias."""
    return next((row for row in COMMANDS if word == row.name or word in row.aliases), None)


def _app(row: Row) -> Typer:
    import typer

    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    function = cast("Callable[..., Any]", importlib.import_module(row.module).command)
    app.command(help=function.__doc__ or row.help)(function)
    return app


def _invoke(app: Typer, words: list[str], name: str, rest: list[str] | None = None) -> int:
    import typer
    from typer.exceptions import TyperException

    try:
        code = app(args=words, prog_name=name, standalone_mode=False, obj=rest)
    except TyperException as error:
        complain(f"{error.format_message().rstrip('.')}. See `{name} --help`.")
        return 2
    except typer.Abort:
        return INTERRUPTED
    except SystemExit as end:
        # Nobody reads any more: the parser swallows that and ends by itself.
        raise BrokenPipeError from end
    return code if isinstance(code, int) else 0


def _overview(words: list[str]) -> int:
    if words and words[0] in ("--version", "-V"):
        from importlib.metadata import version

        print(f"symphony {version('symphony-launch')}")
        return 0
    if words and words[0] not in ("--help", "-h", "help"):
        near = _near(words[0])
        complain(f"there is no command {words[0]!r}{near}. See `symphony --help`.")
        return 2
    print("Usage: symphony COMMAND [OPTIONS]\n\nRun a distributed experiment from one Pulumi program.\n")
    width = max(len(_label(row)) for row in COMMANDS)
    for row in COMMANDS:
        print(f"  {_label(row):{width}}  {row.help}")
    print("\n`symphony COMMAND --help` says more. --debug with any command shows the whole of an error.")
    return 0


def _label(row: Row) -> str:
    return ", ".join([row.name, *row.aliases])


def _near(word: str) -> str:
    import difflib

    found = difflib.get_close_matches(word, [row.name for row in COMMANDS], 1)
    return f", did you mean {found[0]!r}" if found else ""


def _take_debug(words: list[str]) -> tuple[list[str], bool]:
    """Without --debug, which may stand anywhere before a `--`; the environment tells who asks deeper down."""
    end = words.index("--") if "--" in words else len(words)
    if "--debug" in words[:end]:
        words = [word for word in words[:end] if word != "--debug"] + words[end:]
        os.environ[DEBUG_VARIABLE] = "1"
    return words, bool(os.environ.get(DEBUG_VARIABLE))


def complain(text: str, details: Sequence[str] = ()) -> None:
    """Say on standard error what is wrong, in one line and those under it."""
    from symphony.cli.screen import clean

    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"symphony: {clean(text)}", *map(clean, details), sep="\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
