"""Where something stands in the settings files of a stack: its own, Pulumi.STACK.yaml, and its project's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from symphony.plan.names import shown
from symphony.plan.problems import Problem
from symphony.spec.location import NOWHERE, Location

# `symphony:backend: kubernetes` at the beginning of a line: the engine reads what is under `config:` only.
_OUTSIDE = re.compile(r"^[\"']?(\w[\w.-]*:\w+)[\"']?\s*:", re.MULTILINE)


def files(folder: Path, stack: str) -> tuple[Path, ...]:
    """The settings files of a stack, its own first; folder: in the project."""
    import yaml

    names = (above / name for above in (folder, *folder.parents) for name in ("Pulumi.yaml", "Pulumi.yml"))
    if (project := next(filter(Path.is_file, names), None)) is None:
        return ()
    inner = yaml.safe_load(_text(project)).get("stackConfigDir") or ""
    return project.parent / inner / f"Pulumi.{stack}.yaml", project


def line_of(key: str, *files: Path) -> Location:
    """The line of a setting in the first file that has it; NOWHERE: none has."""
    import yaml

    for file in files:
        try:
            config = _value(yaml.compose(_text(file)), "config")
        except yaml.YAMLError:
            continue
        for name, _ in _items(config):
            if name.value == key:
                return Location(str(file), name.start_mark.line + 1)
    return NOWHERE


def outside_config(file: Path) -> Iterator[Problem]:
    """The settings that stand at the top of a file, where nobody reads them."""
    text = _text(file)
    for match in _OUTSIDE.finditer(text):
        where = Location(str(file), text.count("\n", 0, match.start()) + 1)
        what = f"{shown(match[1])} is not under `config:`"
        yield Problem(what, "indent it, below a line `config:`", (where,))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _value(node: Any, key: str) -> Any:
    return next((value for name, value in _items(node) if name.value == key), None)


def _items(node: Any) -> list[Any]:
    return node.value if type(node).__name__ == "MappingNode" else []
