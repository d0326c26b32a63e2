"""The commands of the command line: one row each, parsed by Typer; a command's module is loaded when it runs.

A new command is a file symphony/cli/<name>.py with a function `command`, whose parameters are its arguments
and options and whose docstring is its help with examples, and a row in COMMANDS.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from symphony.cli.screen import DEBUG_VARIABLE
from symphony.errors import UserError

_EXAMPLES = "\nExamples:\n"
_EPILOG = f"""\b{_EXAMPLES}\
    mkdir lab && cd lab && symphony init && symphony up
    symphony process lab
    symphony logs lab -f
    symphony delete lab

`symphony COMMAND --help` says more, with examples."""


class Row(NamedTuple):
    """One command; its module is symphony.cli.<name>, with _ for -.

    suggested_for: what other tools call it; not accepted, but answered with this name.
    """

    name: str
    help: str
    aliases: tuple[str, ...] = ()
    suggested_for: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        return f"symphony.cli.{self.name.replace('-', '_')}"


COMMANDS = (
    Row("init", "Make a project in this folder, with a small program that runs.", (), ("new", "create")),
    Row("up", "Run an experiment: plan, ask, start, watch.", (), ("start", "run", "apply")),
    Row("plan", "Show what `up` would start, restart and stop, and why.", (), ("preview", "diff")),
    Row("restart", "Start processes again, at their addresses.", ("r",), ("rollout", "reload")),
    Row(
        "delete",
        "Stop an experiment and everything it started.",
        ("d", "del"),
        ("stop", "down", "kill", "rm", "destroy"),
    ),
    Row("delete-batch", "Stop several experiments, by name or pattern.", ("db",)),
    Row("ls", "List the experiments.", ("list-experiments", "lse"), ("list",)),
    Row(
        "process",
        "List the processes of an experiment.",
        ("p", "ps", "lsp", "list-processes"),
        ("processes", "status", "get", "top"),
    ),
    Row("why", "Tell why a process is as it is, step by step.", (), ("describe", "explain")),
    Row("logs", "Show the output of processes, merged or of one.", ("l", "log"), ("tail",)),
    Row("exec", "Run a command in a process: exec PROCESS -- COMMAND...", ("x",)),
    Row("ssh", "Work in a process: its window in tmux, a shell in its container.", (), ("attach", "shell")),
    Row("scp", "Copy files to and from a process, PROCESS:PATH.", ("cp",), ("copy",)),
    Row("visit", "Open a service in the browser.", ("vi",), ("open", "port-forward", "browse")),
    Row(
        "switch",
        "Choose the experiment that is meant where none is named.",
        ("e", "se", "switch-experiment"),
        ("use", "select"),
    ),
    Row(
        "images",
        "List the images that symphony built here; `clean` removes those of no stack.",
        (),
        ("image",),
    ),
    Row("setup", "Get what is missing on this machine.", (), ("install",)),
    Row("doctor", "Show what is here, what is missing and how to get it.", (), ("check",)),
    Row("config", "List the settings that a stack can have.", (), ("settings",)),
    Row("rbac", "Print the Kubernetes Role that symphony needs in a namespace.", (), ("role",)),
    Row("env", "Print the exports with which a plain `pulumi` uses the same state."),
)


def find(word: str) -> Row | None:
    """The row of a command's name or alias."""
    return next((row for row in COMMANDS if word == row.name or word in row.aliases), None)


def app() -> typer.Typer:
    """The whole command line."""
    made = typer.Typer(
        cls=_Commands,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    made.callback(invoke_without_command=True, epilog=_EPILOG)(_symphony)
    return made


def load(row: Row) -> TyperCommand:
    """The command of a row, with what its module says."""
    module = importlib.import_module(row.module)
    text, _, examples = (inspect.getdoc(module.command) or "").partition(_EXAMPLES)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    epilog = f"\b{_EXAMPLES}{examples}" if examples else None
    alone.command(row.name, cls=getattr(module, "Parser", None), help=text, epilog=epilog)(module.command)
    made = get_command(alone)
    made.params.append(_debug_option())
    return made  # pyright: ignore[reportReturnType]


class _Commands(TyperGroup):
    """A group that lists its commands by their rows, and loads only the one that is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.params.append(_debug_option())
        for row in COMMANDS:
            also = f" Also: {', '.join(row.aliases)}." if row.aliases else ""
            self.add_command(TyperCommand(row.name, short_help=row.help + also))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args[:1] == ["help"]:
            args = [*args[1:2], "--help"]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        row = find(args[0])
        if row is None and not ctx.resilient_parsing:
            raise _unknown(args[0])
        return (None, None, args[1:]) if row is None else (row.name, load(row), args[1:])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # Typer would make an exit code of it, which is no other than that of a command in a process.
            raise typer.Abort from None


def _symphony(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", help="Show the version.")] = False,
) -> None:
    """Run a distributed experiment from one Pulumi program."""
    if context.invoked_subcommand is not None:
        return
    if version:
        from importlib.metadata import version as version_of

        print(f"symphony {version_of('symphony-launch')}")
        return
    print(context.get_help())


def _debug_option() -> TyperOption:
    def remember(_context: Any, _option: Any, value: bool) -> None:
        # The environment tells who asks deeper down.
        if value:
            os.environ[DEBUG_VARIABLE] = "1"

    return TyperOption(
        param_decls=["--debug"],
        is_flag=True,
        expose_value=False,
        callback=remember,
        help="Show the full traceback of an error.",
    )


def _unknown(word: str) -> UserError:
    meant = [row.name for row in COMMANDS if word in row.suggested_for]
    names = meant or difflib.get_close_matches(word, [row.name for row in COMMANDS], 1)
    near = f", did you mean {names[0]!r}?" if names else ""
    return UserError(f"there is no command {word!r}{near}", remedy="See `symphony --help`")
