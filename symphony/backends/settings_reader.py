"""Reads the settings of a stack, gathers their problems with their lines, and lists all settings."""

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
# Texts that YAML reads as a number, a truth value or a date.
_CHANGED = re.compile(
    r"[-+]?[\d_]*\.?\d+([eE][-+]?\d+)?|0[xob][\da-fA-F]+|T(RUE|rue)|F(ALSE|alse)|\d{4}-\d\d?-\d\d?.*"
)
# Numbers to the engine that PyYAML reads as text: 1e3, 0o17.
_NUMBER_OF_ENGINE = re.compile(r"[-+]?\d+[eE][-+]?\d+|0o[0-7]+")
# `symphony:backend: kubernetes` at the beginning of a line is at the top level of the file, where the engine
# ignores it, because it reads only what is below `config:`.
_OUTSIDE = re.compile(r"^[\"']?(\w[\w.-]*:\w+)[\"']?\s*:", re.MULTILINE)


def read_settings(config: Mapping[str, Any], *files: Path) -> StackSettings:
    """Return the settings of a stack as its backend's settings class, with their problems.

    files: the settings files, the stack's own first.
    """
    places = _places(files)
    name = registry.resolve(as_text(config.get(_BACKEND)) or None)
    kind = registry.get(name or registry.DEFAULT).settings_class
    own = {definition.key for definition in definitions(kind)}
    others = [key for key in config if key.startswith(PREFIX) and key not in own]
    problems = [_unknown(key, _where(places, key)) for key in others if key not in _known()]
    problems += [problem for file in files[:1] for problem in _outside_config(file)]
    problems += _unread(*files) if len(files) == 2 else ()
    problems += _octal(config, places)
    values: dict[str, Any] = {}
    for definition in definitions(kind):
        if text := as_text(config.get(definition.key)):
            where = _where(places, definition.key)
            if definition.is_text and (written := _changed_by_yaml(text, places.get(definition.key))):
                what = f"{definition.key}: YAML reads {written} as {_as_number(text)}"
                problems.append(Problem(what, f'quote it: "{written}"', (where,)))
                continue
            try:
                values[definition.field] = definition.parse(text)
            except ValueError:
                problems.append(_wrong(definition, text, where))
    if name is None and "backend" in values:
        definition = next(row for row in table() if row.key == _BACKEND)
        problems.append(_wrong(definition, values["backend"], _where(places, _BACKEND)))
    values["backend"] = name or registry.DEFAULT
    settings = kind(**values, config=config)
    for field, what, remedy in settings.faults():
        key = key_of(field)
        problems.append(Problem(f"{key} {what}", remedy, (_where(places, key),)))
    return dataclasses.replace(settings, problems=tuple(problems))


def table() -> list[Definition]:
    """Return every setting once: first the common settings, then those of single backends."""
    known = {row.key: row for row in definitions(StackSettings)}
    names = tuple(registry.names())
    known[_BACKEND] = dataclasses.replace(known[_BACKEND], type=Literal[names], takes=", ".join(names))
    for backend in registry.every():
        for definition in definitions(backend.settings_class, backend.name):
            known.setdefault(definition.key, definition)
    return list(known.values())


def places(*files: Path) -> dict[str, Location]:
    """Return the line of every setting in the first file that sets it."""
    return {key: location for key, (location, _) in _places(files).items()}


def unquoted(*files: Path) -> dict[str, str]:
    """Return the text of each unquoted setting as written; YAML may read 1.10 as 1.1, or a date."""
    nodes = {key: node for key, (_, node) in _places(files).items() if type(node).__name__ == "ScalarNode"}
    return {key: node.value for key, node in nodes.items() if node.style is None}


def files_of(folder: Path, stack: str) -> tuple[Path, ...]:
    """Return the settings files of a stack, its own first; folder: any folder in the project."""
    import yaml

    names = (above / name for above in (folder, *folder.parents) for name in ("Pulumi.yaml", "Pulumi.yml"))
    if (project := next(filter(Path.is_file, names), None)) is None:
        return ()
    inner = yaml.safe_load(_content(project)).get("stackConfigDir") or ""
    return project.parent / inner / f"Pulumi.{stack}.yaml", project


def _places(files: tuple[Path, ...]) -> dict[str, tuple[Location, Any]]:
    """Return the line and the YAML node of every setting, in the first file that sets it."""
    import yaml

    places: dict[str, tuple[Location, Any]] = {}
    for file in files:
        try:
            root = yaml.compose(_content(file))
        except yaml.YAMLError:
            continue
        config = next((value for name, value in _items(root) if name.value == "config"), None)
        for name, value in _items(config):
            places.setdefault(name.value, (Location(str(file), name.start_mark.line + 1), value))
    return places


def _items(node: Any) -> list[Any]:
    return node.value if type(node).__name__ == "MappingNode" else []


def _where(places: Mapping[str, tuple[Location, Any]], key: str) -> Location:
    return places[key][0] if key in places else NOWHERE


def _changed_by_yaml(text: str, place: tuple[Location, Any] | None) -> str:
    """Return the text in the file if YAML changed it to `text` (1e3 to 1000, 007 to 7, a date), else ""."""
    node: Any = place[1] if place else None
    if type(node).__name__ != "ScalarNode" or node.style is not None:
        return ""
    if node.value == text and not _NUMBER_OF_ENGINE.fullmatch(text):
        return ""
    return node.value if _CHANGED.fullmatch(node.value) and _is_read_as(node.value, text) else ""


def _is_read_as(written: str, text: str) -> bool:
    """Return whether YAML or the engine reads `written` as `text`; else `text` is from `-c` or a Cluster."""
    import yaml

    read = as_text(yaml.safe_load(written)) or written
    try:
        return float(_as_number(read)) == float(text)
    except ValueError:
        return text == read or text.startswith(written)


def _as_number(text: str) -> str:
    """Return a number as the engine writes it."""
    if not _NUMBER_OF_ENGINE.fullmatch(text):
        return text
    return str(int(text, 8)) if text.startswith("0o") else f"{float(text):.15g}"


def _octal(config: Mapping[str, Any], places: Mapping[str, tuple[Location, Any]]) -> Iterator[Problem]:
    """Yield a problem for each number, such as a parameter of the program, that YAML reads as octal."""
    for key, value in config.items():
        text = as_text(value)
        written = _changed_by_yaml(text, places.get(key))
        if text and written.isdigit() and int(written) != float(text) and not _is_text(key):
            what = f"{key}: YAML reads {written} as an octal number, which is {text}"
            remedy = f'write {int(written)}, or quote it: "{written}"'
            yield Problem(what, remedy, (_where(places, key),))


def _is_text(key: str) -> bool:
    return key == _BACKEND or any(row.is_text for row in table() if row.key == key)


def _outside_config(file: Path) -> Iterator[Problem]:
    """Yield a problem for each setting at the top level of a file, where the engine ignores it."""
    text = _content(file)
    for match in _OUTSIDE.finditer(text):
        where = Location(str(file), text.count("\n", 0, match.start()) + 1)
        what = f"{quoted(match[1])} is not under `config:`"
        yield Problem(what, "indent it below a line `config:`", (where,))


def _unread(own: Path, project: Path) -> Iterator[Problem]:
    """Yield a problem for each file of settings that the engine ignores, because it reads only `own`."""
    for file in (project.parent / own.name, own.with_suffix(".yml")):
        if places(file) and file.resolve() != own.resolve():
            name, read_name = os.path.relpath(file, project.parent), os.path.relpath(own, project.parent)
            what = f"the engine does not read {name}, but {read_name}"
            yield Problem(what, f"move the settings to {read_name}", (Location(str(file), 1),))


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _known() -> list[str]:
    return [row.key for row in table()]


def as_text(value: Any) -> str:
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
