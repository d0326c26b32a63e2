"""The commands of the original with their arguments, and the same commands of `symphony`."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

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
    """One command; command is what `symphony` calls it, arguments are those of the original."""

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

        result = commands.find(self.command)
        return result.help if result else ""

    def is_overridden(self, kind: type[Any]) -> bool:
        """Return whether a subclass of SymphonyParser has an action of its own for it."""
        return any(self.action in vars(each) for each in kind.__mro__[:-2])

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Give a parser the arguments of the command."""
        for name in self.arguments:
            settings = _SETTINGS.get(name, {} if name in _WORDS else {"action": "store_true"})
            option = () if name in _WORDS else (_OPTIONS[name], f"--{name.replace('_', '-')}")
            parser.add_argument(*(option or (name,)), **settings)

    def words(self, args: argparse.Namespace) -> list[str]:
        """Return the words after `symphony` that do the same."""
        given = vars(args)
        words = [self.command]
        for name in _WORDS:
            value = given.get(name) if name in self.arguments else None
            words += value if isinstance(value, list) else [value] if value else []
        for name in self.arguments:
            value = given.get(name)
            if name in _OPTIONS and value not in (None, False):
                words += [_OPTIONS[name]] if value is True else [_OPTIONS[name], str(value)]
        remainder = ["--", *given.get("remainder", ())] if self.command == "exec" else []
        return [*words, *remainder]


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


def find(word: str) -> Row | None:
    """Return the row of a command's name or alias."""
    return next((row for row in ROWS if word == row.name or word in row.aliases), None)
