"""SymphonyParser: a command line with the user's commands beside every command of `symphony`."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from symphony.classic.config import SymphonyConfig
from symphony.cli import main as symphony
from symphony.cli import screen
from symphony.engine.state import store
from symphony.errors import SymphonyError, UserError
from symphony.operations import stacks

if TYPE_CHECKING:
    from symphony.classic.cluster import Cluster

Action = Callable[[argparse.Namespace], int | None]


# In the order in which `symphony` takes them.
_WORDS = ("experiment_names", "experiment_name", "component_name", "service_name", "src_file", "dest_file")
_OPTIONS = {"force": "-f", "follow": "-f", "dry_run": "-dr", "url_only": "-u", "since": "-s", "tail": "-t"}
_SETTINGS: dict[str, dict[str, Any]] = {
    "experiment_name": {"nargs": "?"},
    "experiment_names": {"nargs": "+"},
    "since": {"default": None},
    "tail": {"default": None},
}


class Row(NamedTuple):
    """A command of the original with its arguments; `command` is its name in `symphony`."""

    name: str
    aliases: tuple[str, ...]
    command: str
    arguments: tuple[str, ...]

    @property
    def action(self) -> str:
        return f"action_{self.name.replace('-', '_')}"

    @property
    def help(self) -> str:
        """The help of `symphony --help`."""
        from symphony.cli import commands

        command = commands.find(self.command)
        return command.help if command else ""

    def is_overridden(self, kind: type[Any]) -> bool:
        """Return whether a subclass of SymphonyParser has an action of its own for it."""
        return any(self.action in vars(base) for base in kind.__mro__[:-2])

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Give a parser the arguments of the command."""
        for name in self.arguments:
            settings = _SETTINGS.get(name, {} if name in _WORDS else {"action": "store_true"})
            option = () if name in _WORDS else (_OPTIONS[name], f"--{name.replace('_', '-')}")
            parser.add_argument(*(option or (name,)), **settings)

    def words(self, args: argparse.Namespace) -> list[str]:
        """Return the arguments with which `symphony` runs this command."""
        arguments = vars(args)
        words = [self.command]
        for name in _WORDS:
            value = arguments.get(name) if name in self.arguments else None
            words += value if isinstance(value, list) else [value] if value else []
        for name in self.arguments:
            value = arguments.get(name)
            if name in _OPTIONS and value not in (None, False):
                words += [_OPTIONS[name]] if value is True else [_OPTIONS[name], str(value)]
        remainder = ["--", *arguments.get("remainder", ())] if self.command == "exec" else []
        return [*words, *remainder]


# SymphonyParser parses only the commands that a subclass changes; `symphony` parses the others, and its
# cli/commands.py has their aliases and options.
ROWS = (
    Row("delete", ("d", "del"), "delete", ("experiment_name", "force", "dry_run")),
    Row("delete-batch", ("db",), "delete-batch", ("experiment_names", "force", "dry_run")),
    Row("scp", ("cp",), "scp", ("src_file", "dest_file", "experiment_name")),
    Row("ssh", (), "ssh", ("component_name", "experiment_name")),
    Row("exec", ("x",), "exec", ("component_name", "experiment_name")),
    Row("log", ("logs", "l"), "logs", ("component_name", "experiment_name", "follow", "since", "tail")),
    Row("list-experiments", ("ls", "lse"), "ls", ("experiment_name",)),
    Row("switch-experiment", ("e", "se", "switch"), "switch", ("force", "experiment_name")),
    Row("list-processes", ("lsp", "p", "ps", "process"), "process", ("experiment_name",)),
    Row("visit", ("vi",), "visit", ("service_name", "url_only", "experiment_name")),
)


def find_row(word: str) -> Row | None:
    """Return the row of a command's name or alias."""
    return next((row for row in ROWS if word == row.name or word in row.aliases), None)


class SymphonyParser:
    """A command line of your own, with your commands and those of `symphony`.

    Subclass it, define create_cluster(), and add commands in setup(). In an action, args.remainder has the
    words after `--`. The commands of `symphony` find only experiments of the cluster's backend. A subclass
    replaces one of them by defining its action, such as action_delete(self, args).

    Example:
        class MyParser(SymphonyParser):
            def create_cluster(self):
                return Cluster.new("tmux")

            def setup(self):
                super().setup()
                parser = self.add_subparser("create", aliases=["c"])
                parser.add_argument("name")

            def action_create(self, args):
                self.cluster.launch(...)

        MyParser().main()
    """

    def __init__(self) -> None:
        self._parsers: dict[str, argparse.ArgumentParser] = {}
        self._helps: dict[str, str] = {}
        try:
            self.setup()
        except SymphonyError as error:
            sys.exit(_show_error(error))

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster of create_cluster(), made when it is first used."""
        return self.create_cluster()

    def create_cluster(self) -> Cluster:
        """Return the cluster of this command line; a subclass defines it."""
        raise UserError(
            f"{type(self).__name__} has no cluster", remedy="Define create_cluster(self) in it and return one"
        )

    def setup(self) -> None:
        """Add commands; a subclass calls super().setup() first."""

    def add_subparser(
        self, name: str, aliases: Sequence[str] = (), **settings: Any
    ) -> argparse.ArgumentParser:
        """Add a command that calls the method action_<name>(args).

        It replaces a command of `symphony` with that name or alias.

        Args:
            name: The name of the command.
            aliases: Other names of the command.
            settings: The help of the command, and keywords of argparse.ArgumentParser.

        Returns:
            The parser of the command; add the arguments of the command to it.

        Raises:
            UserError: The method does not exist.

        Example:
            self.add_subparser("create", aliases=["c"], help="Start it.").add_argument("name")
        """
        action = self._action(name)
        help_ = str(settings.pop("help", None) or inspect.getdoc(action) or "")
        parser = argparse.ArgumentParser(
            prog=f"{Path(sys.argv[0]).name} {name}", description=help_, allow_abbrev=False, **settings
        )
        parser.set_defaults(func=action)
        self._parsers.update(dict.fromkeys((name, *aliases), parser))
        self._helps[", ".join((name, *aliases))] = help_.partition("\n")[0]
        return parser

    def get_subparser(self, name: str) -> argparse.ArgumentParser:
        """Return the parser of an added command, or of a command of `symphony` that the original has, too.

        Args:
            name: The name of the command.

        Raises:
            UserError: No such command was added, and the original has none.

        Example:
            self.get_subparser("delete").add_argument("--archive", action="store_true")
        """
        if name not in self._parsers:
            row = find_row(name)
            if row is None:
                raise UserError(
                    f"this command line has no parser for {name}", remedy="Add one with add_subparser()"
                )
            row.declare(self.add_subparser(row.name, row.aliases, help=row.help))
        return self._parsers[name]

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Run the command that the user typed.

        Args:
            arguments: The words of the command; by default those of sys.argv.

        Raises:
            SystemExit: The command failed; the error has its exit code.

        Example:
            MyParser().main()
        """
        words = list(sys.argv[1:] if arguments is None else arguments)
        try:
            code = self._run(words)
        except SymphonyError as error:
            code = _show_error(error)
        except KeyboardInterrupt:
            screen.show_error("interrupted.")
            code = symphony.INTERRUPTED
        if code:
            sys.exit(code)

    def _run(self, words: list[str]) -> int:
        row = find_row(words[0]) if words else None
        if row is not None and words[0] not in self._parsers and row.is_overridden(type(self)):
            self.get_subparser(row.name)
        if words and words[0] in self._parsers:
            end = words.index("--") if "--" in words else len(words)
            args = self._parsers[words[0]].parse_args(words[1:end])
            args.remainder, args.has_remainder = words[end + 1 :], end < len(words)
            return args.func(args) or 0
        code = self._symphony(words)
        if not words or words[0] in ("-h", "--help", "help"):
            sys.stdout.write(self._own_commands())
        return code

    def _symphony(self, words: Sequence[str]) -> int:
        """Run a command of `symphony` on the experiments of the cluster's backend; return its exit code."""
        if type(self).create_cluster is SymphonyParser.create_cluster:
            return symphony.main(words)
        words = _with_username(words)
        with stacks.only_on(self.cluster.backend):
            return symphony.main(words)

    def _built_in(self, row: Row, args: argparse.Namespace) -> int:
        return self._symphony(row.words(args))

    def _action(self, name: str) -> Action:
        method = f"action_{name.replace('-', '_')}"
        action: Any = getattr(self, method, None)
        if not callable(action):
            raise UserError(
                f"{type(self).__name__} adds the command {name}, but has no method for it",
                remedy=f"Define the method {method}(self, args)",
            )
        return cast("Action", action)

    def _own_commands(self) -> str:
        width = max(map(len, self._helps), default=0)
        lines = [f"  {names:{width}}  {text}".rstrip() for names, text in self._helps.items()]
        return "\n".join(["", f"Commands of {Path(sys.argv[0]).name}:", *lines, ""]) if lines else ""

    # the built-in commands, which a subclass may replace

    if TYPE_CHECKING:

        def action_delete(self, args: argparse.Namespace) -> int | None: ...
        def action_delete_batch(self, args: argparse.Namespace) -> int | None: ...
        def action_scp(self, args: argparse.Namespace) -> int | None: ...
        def action_ssh(self, args: argparse.Namespace) -> int | None: ...
        def action_exec(self, args: argparse.Namespace) -> int | None: ...
        def action_log(self, args: argparse.Namespace) -> int | None: ...
        def action_list_experiments(self, args: argparse.Namespace) -> int | None: ...
        def action_switch_experiment(self, args: argparse.Namespace) -> int | None: ...
        def action_list_processes(self, args: argparse.Namespace) -> int | None: ...
        def action_visit(self, args: argparse.Namespace) -> int | None: ...

    # what subclasses of the original call

    def add_dry_run(self, parser: argparse.ArgumentParser) -> None:
        """Add -dr, --dry-run to a parser, which gives args.dry_run: self.add_dry_run(parser)."""
        parser.add_argument("-dr", "--dry-run", action="store_true", help="Show what would be done.")

    _add_dry_run = add_dry_run

    def _add_experiment_name(
        self, parser: argparse.ArgumentParser, required: bool = True, positional: bool = True
    ) -> None:
        """Add args.experiment_name: a word, one that may be missing, or an option."""
        help_ = "The name of the experiment."
        if positional:
            parser.add_argument("experiment_name", nargs=None if required else "?", help=help_)
        else:
            names = ("-e", "--exp", "--experiment", "--experiment-name")
            parser.add_argument(*names, dest="experiment_name", help=help_)

    def _add_component_arg(self, parser: argparse.ArgumentParser) -> None:
        """Add args.component_name: a process."""
        parser.add_argument("component_name", help="The process, or group/process.")

    def _get_experiment(self, args: argparse.Namespace) -> str | None:
        """Return the full name of the experiment that args.experiment_name means; None without one."""
        return self._interactive_find_exp(args.experiment_name) if args.experiment_name else None

    def _interactive_find_exp(self, name: str) -> str:
        """Return the full name of an experiment; raise the errors of _interactive_find()."""
        matches, is_exact = self.cluster.fuzzy_match_experiment(name)
        return matches[0] if is_exact else self._interactive_find(matches, name, "experiment")

    def _interactive_find_process(self, process: str, name: str | None = None) -> tuple[str | None, str]:
        """Return the group, or None, and the name of a process; raise the errors of _interactive_find()."""
        group, _, last = process.rpartition("/")
        matches, is_exact = self.cluster.fuzzy_match_process(last, name)
        if group:
            matches = [match for match in matches if match[0] == group]
        if is_exact and len(matches) == 1:
            return matches[0]
        return self._interactive_find(matches, process, "process")

    def _interactive_find(self, matches: Sequence[Any], name: str, kind: str = "name") -> Any:
        """Return the only match for a name, or raise UserError."""
        if len(matches) == 1:
            return matches[0]
        if not matches:
            raise UserError(f"{kind} {name} does not exist", remedy="Check the name for typing mistakes")
        names = (match if isinstance(match, str) else "/".join(filter(None, match)) for match in matches)
        candidates = ", ".join(names)
        raise UserError(f"{name} could be {candidates}", remedy="Write its whole name")

    def _print_experiment(self, data: Mapping[str | None, Mapping[str, Mapping[str, Any]]]) -> str:
        """Return the result of describe_experiment() as a table."""
        processes = [columns for group in data.values() for columns in group.values()]
        rows = [list(map(str, columns.values())) for columns in processes]
        return "\n".join(screen.plain_lines([list(processes[0]), *rows]) if processes else [])


for _row in ROWS:
    setattr(SymphonyParser, _row.action, partialmethod(SymphonyParser._built_in, _row))  # pyright: ignore[reportPrivateUsage]


def _with_username(words: Sequence[str]) -> list[str]:
    """Return the words of a command with the full names of the user's own experiments."""
    row = find_row(words[0]) if words else None
    if row is None:
        return [*words]
    known = {name.stack for name in store.names()}
    names = [*words[1:]]
    for place, word in enumerate(names):
        if word == "--":
            break
        if (own := SymphonyConfig().prefixed(word)) in known:
            names[place] = own
            if not row.name.startswith("delete"):
                # Other commands take one experiment, and then processes.
                break
    # `symphony` lacks some aliases of the original: del, ps.
    return [row.command, *names]


def _show_error(error: SymphonyError) -> int:
    screen.show_error(error.line, error.details)
    return error.exit_code
