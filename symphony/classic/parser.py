"""SymphonyParser: a command line of the user's own, with every command of `symphony` beside theirs."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from symphony.cli import main as commands
from symphony.cli import uncaught
from symphony.errors import UserError

if TYPE_CHECKING:
    from symphony.classic.cluster import Cluster

Action = Callable[[argparse.Namespace], int | None]


class SymphonyParser:
    """Subclass it, name the cluster, add commands; what is not one of them is a command of `symphony`.

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
        uncaught.show_in_full()
        self._parsers: dict[str, argparse.ArgumentParser] = {}
        self._helps: dict[str, str] = {}
        self.setup()

    @cached_property
    def cluster(self) -> Cluster:
        """What create_cluster() made, the first time it is asked for."""
        return self.create_cluster()

    def create_cluster(self) -> Cluster:
        """The cluster of this command line; each subclass says which."""
        raise UserError(
            f"{type(self).__name__} has no cluster", remedy="Define create_cluster(self) in it and return one"
        )

    def setup(self) -> None:
        """Add commands; a subclass calls super().setup() first."""

    def add_subparser(
        self, name: str, aliases: Sequence[str] = (), **settings: Any
    ) -> argparse.ArgumentParser:
        """Add the command `name`, which runs action_<name>(args); returns its parser, to add arguments to.

        A command of `symphony` of that name or alias is hidden by it. UserError: there is no such action.
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

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Run the command that was typed; SystemExit: it did not end well, with its exit code."""
        words = list(sys.argv[1:] if arguments is None else arguments)
        if words and words[0] in self._parsers:
            code = self._run(self._parsers[words[0]], words[1:])
        else:
            code = commands.main(words)
            if not words or words[0] in ("-h", "--help", "help"):
                sys.stdout.write(self._own_commands())
        if code:
            sys.exit(code)

    def _run(self, parser: argparse.ArgumentParser, words: list[str]) -> int:
        args = parser.parse_args(words)
        try:
            return args.func(args) or 0
        except KeyboardInterrupt:
            commands.complain("interrupted.")
            return commands.INTERRUPTED

    def _action(self, name: str) -> Action:
        method = f"action_{name.replace('-', '_')}"
        action: Any = getattr(self, method, None)
        if not callable(action):
            raise UserError(
                f"{type(self).__name__} has no action for the command {name}",
                remedy=f"Define {method}(self, args) in it",
            )
        return cast("Action", action)

    def _own_commands(self) -> str:
        width = max(map(len, self._helps), default=0)
        lines = [f"  {names:{width}}  {text}".rstrip() for names, text in self._helps.items()]
        return "\n".join(["", f"Commands of {Path(sys.argv[0]).name}:", *lines, ""]) if lines else ""
