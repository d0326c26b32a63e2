"""Reads the settings of a stack, gathers their problems with their lines, and lists all settings."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from symphony.backends import registry
from symphony.backends.stack_settings import PREFIX, Definition, StackSettings, definitions, key_of
from symphony.plan.names import nearest, quoted
from symphony.plan.problems import Problem
from symphony.spec.location import NOWHERE, Location

_BACKEND = key_of("backend")
COLUMNS = ("setting", "takes", "default", "backend", "meaning")
# `symphony:backend: kubernetes` at the beginning of a line, where the engine, which reads `config:`, ignores
# it.
_OUTSIDE = re.compile(r"^[\"']?(\w[\w.-]*:\w+)[\"']?\s*:", re.MULTILINE)


def read(config: Mapping[str, Any], *files: Path) -> StackSettings:
    """Return the settings of a stack as its backend's settings class, with their problems.

    files: the settings files, the stack's own first.
    """
    lines = places(*files)
    problems = [
        _unknown(key, lines.get(key, NOWHERE))
        for key in config
        if key.startswith(PREFIX) and key not in _known()
    ]
    problems += [problem for file in files[:1] for problem in _outside_config(file)]
    problems += _unread(*files) if len(files) == 2 else ()
    name = registry.resolve(_text(config.get(_BACKEND)) or None)
    kind = registry.get(name or registry.DEFAULT).settings_class
    values: dict[str, Any] = {}
    for definition in definitions(kind):
        if text := _text(config.get(definition.key)):
            try:
                values[definition.field] = definition.read(text)
            except ValueError:
                problems.append(_wrong(definition, text, lines.get(definition.key, NOWHERE)))
    if name is None:
        backend = next(row for row in table() if row.key == _BACKEND)
        problems.append(_wrong(backend, values["backend"], lines.get(_BACKEND, NOWHERE)))
    values["backend"] = name or registry.DEFAULT
    settings = kind(**values, config=config)
    for field, what, remedy in settings.clashes():
        key = key_of(field)
        problems.append(Problem(f"{key} {what}", remedy, (lines.get(key, NOWHERE),)))
    return dataclasses.replace(settings, problems=tuple(problems))


def table() -> list[Definition]:
    """Return every setting once: first the common settings, then those of single backends."""
    known = {row.key: row for row in definitions(StackSettings)}
    names = tuple(registry.names())
    known[_BACKEND] = dataclasses.replace(known[_BACKEND], type=Literal[names], takes=", ".join(names))
    for row in registry.every():
        for definition in definitions(row.settings_class, row.name):
            known.setdefault(definition.key, definition)
    return list(known.values())


def places(*files: Path) -> dict[str, Location]:
    """Return the line of every setting in the first file that sets it."""
    import yaml

    places: dict[str, Location] = {}
    for file in files:
        try:
            root = yaml.compose(_content(file))
        except yaml.YAMLError:
            continue
        config = next((value for name, value in _items(root) if name.value == "config"), None)
        for name, _ in _items(config):
            places.setdefault(name.value, Location(str(file), name.start_mark.line + 1))
    return places


def files_of(folder: Path, stack: str) -> tuple[Path, ...]:
    """Return the settings files of a stack, its own first; folder: any folder in the project."""
    import yaml

    names = (above / name for above in (folder, *folder.parents) for name in ("Pulumi.yaml", "Pulumi.yml"))
    if (project := next(filter(Path.is_file, names), None)) is None:
        return ()
    inner = yaml.safe_load(_content(project)).get("stackConfigDir") or ""
    return project.parent / inner / f"Pulumi.{stack}.yaml", project


def _items(node: Any) -> list[Any]:
    return node.value if type(node).__name__ == "MappingNode" else []


def _outside_config(file: Path) -> Iterator[Problem]:
    """Yield a problem for each setting at the top level of a file, where the engine ignores it."""
    text = _content(file)
    for match in _OUTSIDE.finditer(text):
        where = Location(str(file), text.count("\n", 0, match.start()) + 1)
        what = f"{quoted(match[1])} is not under `config:`"
        yield Problem(what, "indent it below a line `config:`", (where,))


def _unread(own: Path, project: Path) -> Iterator[Problem]:
    """Yield a problem for each file with settings of the stack besides `own`, which the engine reads."""
    for file in (project.parent / own.name, own.with_suffix(".yml")):
        if places(file) and file.resolve() != own.resolve():
            name, read_name = os.path.relpath(file, project.parent), os.path.relpath(own, project.parent)
            what = f"{name} is not read: the settings of its stack are in {read_name}"
            yield Problem(what, "move them there", (Location(str(file), 1),))


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _known() -> list[str]:
    return [row.key for row in table()]


def _text(value: Any) -> str:
    """Return a value as the engine passes it to programs; empty for an encrypted value."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, (bool, int, float, list, dict)) else ""


def _unknown(key: str, where: Location) -> Problem:
    near = nearest(key.removeprefix(PREFIX), [known.removeprefix(PREFIX) for known in _known()])
    remedy = f"did you mean {PREFIX}{near}?" if near else "`symphony config` lists all settings"
    return Problem(f"{quoted(key)} is not a setting", remedy, (where,))


def _wrong(definition: Definition, text: str, where: Location) -> Problem:
    near = nearest(text, definition.choices)
    one_of = "one of " if definition.choices or definition.type is bool else ""
    remedy = f"did you mean {near}?" if near else f"expected {one_of}{definition.takes}"
    return Problem(f"invalid value {quoted(text)} for {definition.key}", remedy, (where,))
