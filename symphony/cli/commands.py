"""The table of commands, and the Typer application, which imports the module of a command when it runs.

To add a command, add a row to COMMANDS and a file symphony/cli/<name>.py with a function `command`, whose
parameters are the arguments and options and whose docstring is the help with examples.
"""

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

`symphony COMMAND --help` shows options and examples."""


class Row(NamedTuple):
    """A command; its module is symphony.cli.<name>, with _ for -.

    Attributes:
        suggested_for: Names of such a command in other tools, for "did you mean".
    """

    name: str
    help: str
    aliases: tuple[str, ...] = ()
    suggested_for: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        return f"symphony.cli.{self.name.replace('-', '_')}"


COMMANDS = (
    Row("init", "Create a project with a small program in this folder.", (), ("new", "create")),
    Row("up", "Start or update an experiment: plan, ask, start, watch.", (), ("start", "run", "apply")),
    Row("plan", "Show what `up` would start, restart and stop, and why.", (), ("preview",)),
    Row("restart", "Restart processes; addresses and other processes stay.", (), ("rollout", "reload")),
    Row(
        "delete",
        "Stop an experiment and delete everything it started.",
        ("d",),
        ("del", "stop", "down", "kill", "rm", "destroy"),
    ),
    Row("delete-batch", "Delete several experiments, by name or pattern.", ("db",)),
    Row("ls", "List the experiments.", ("list-experiments", "lse"), ("list",)),
    Row(
        "process",
        "List the processes of an experiment.",
        ("p", "lsp", "list-processes"),
        ("ps", "processes", "status", "get"),
    ),
    Row("graph", "Show or draw processes, services and dependencies.", (), ("draw", "dag")),
    Row("top", "Watch an experiment live: processes, services, usage.", (), ("watch", "live", "htop")),
    Row("wait", "Wait until an experiment is ready or has completed.", ()),
    Row("why", "Explain a process's state, step by step.", (), ("describe", "explain")),
    Row("logs", "Print the output of processes, merged.", ("l", "log"), ("tail",)),
    Row("history", "List the runs of an experiment.", (), ("runs", "rounds")),
    Row("diff", "Compare two runs: declaration, settings, code, git.", (), ("compare",)),
    Row("results", "Show the values that processes report, one row for each run.", (), ("result", "table")),
    Row("sweep", "Run a program once for each combination of parameters.", (), ("grid", "tune", "hpo")),
    Row("drift", "Compare the running processes with their declaration.", (), ("refresh",)),
    Row("leaks", "List processes that run without a stack.", (), ("orphans",)),
    Row("prune", "Remove old runs with their logs.", (), ("gc", "clean")),
    Row("exec", "Run a command in a process: exec PROCESS -- COMMAND...", ("x",)),
    Row("ssh", "Attach to a process's tmux window, or open a shell beside it.", (), ("attach", "shell")),
    Row("scp", "Copy files to or from PROCESS:PATH.", ("cp",), ("copy",)),
    Row("visit", "Open a service in the browser.", ("vi",), ("open", "port-forward", "browse")),
    Row(
        "switch",
        "Set the current experiment, used when a command names none.",
        ("e", "se", "switch-experiment"),
        ("use", "select"),
    ),
    Row("gpus", "List the GPUs of this machine and the processes that hold them.", (), ("gpu", "nvidia-smi")),
    Row("images", "List images built by symphony; `clean` removes unused ones.", (), ("image",)),
    Row("setup", "Install missing prerequisites.", (), ("install",)),
    Row("doctor", "Check prerequisites and show how to install them.", (), ("check",)),
    Row("config", "List the settings of a stack.", (), ("settings",)),
    Row("rbac", "Print the Kubernetes Role that symphony needs in a namespace.", (), ("role",)),
    Row("env", "Print shell exports so plain `pulumi` uses the same state."),
)


def find(word: str) -> Row | None:
    """Return the command with a name or alias."""
    return next((row for row in COMMANDS if word == row.name or word in row.aliases), None)


def app() -> typer.Typer:
    """Return the Typer application."""
    application = typer.Typer(
        cls=_Commands,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    application.callback(invoke_without_command=True, epilog=_EPILOG)(_symphony)
    return application


def load(row: Row) -> TyperCommand:
    """Import the module of a command and return its parser."""
    module = importlib.import_module(row.module)
    text, _, examples = (inspect.getdoc(module.command) or "").partition(_EXAMPLES)
    application = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    epilog = f"\b{_EXAMPLES}{examples}" if examples else None
    application.command(row.name, cls=getattr(module, "Parser", None), help=text, epilog=epilog)(
        module.command
    )
    command = get_command(application)
    command.params.append(_debug_option())
    return command  # pyright: ignore[reportReturnType]


class _Commands(TyperGroup):
    """A group that lists all commands and imports only the command that runs."""

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
            # Typer would return 130, as `exec` may, so main() could not tell them apart. For Abort, main()
            # prints `interrupted.` and returns 130.
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
        # Read from the environment elsewhere.
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
    names = [row.name for row in COMMANDS if word in row.suggested_for]
    names = names or difflib.get_close_matches(word, [row.name for row in COMMANDS], 1)
    near = f", did you mean {names[0]!r}?" if names else ""
    return UserError(f"there is no command {word!r}{near}", remedy="See `symphony --help`")
