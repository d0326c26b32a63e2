"""Reads the settings of a stack and gathers what is wrong in them; lists every setting there is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from symphony.backends import registry, stack_file
from symphony.backends.stack_settings import PREFIX, Definition, StackSettings, definitions, key_of
from symphony.plan.names import nearest, shown
from symphony.plan.problems import Problem
from symphony.spec.location import Location

_BACKEND = key_of("backend")
COLUMNS = ("setting", "takes", "default", "backend", "meaning")


def read(config: Mapping[str, Any], *files: Path) -> StackSettings:
    """The settings in the configuration of a stack, as the class of its backend, with every problem of them.

    files: where they were written, the stack's own first; in that what stands outside `config:` is a problem.
    """

    def find(key: str) -> Location:
        return stack_file.line_of(key, *files)

    problems = [_unknown(key, find(key)) for key in config if key.startswith(PREFIX) and key not in _known()]
    problems += [problem for file in files[:1] for problem in stack_file.outside_config(file)]
    name = registry.resolve(_text(config.get(_BACKEND)) or None)
    kind = registry.get(name or registry.DEFAULT).settings_class
    values: dict[str, Any] = {}
    for each in definitions(kind):
        if text := _text(config.get(each.key)):
            try:
                values[each.field] = each.type.read(text)
            except ValueError:
                problems.append(_wrong(each, text, find(each.key)))
    if name is None:
        backend = next(each for each in table() if each.key == _BACKEND)
        problems.append(_wrong(backend, values["backend"], find(_BACKEND)))
    values["backend"] = name or registry.DEFAULT
    settings = kind(**values, config=config)
    for field, what, remedy in settings.clashes():
        key = key_of(field)
        problems.append(Problem(f"{key} {what}", remedy, (find(key),)))
    return dataclasses.replace(settings, problems=tuple(problems))


def table() -> list[Definition]:
    """Every setting there is, once: those of all backends, then those of each."""
    result = {each.key: each for each in definitions(StackSettings)}
    names = tuple(registry.names())
    type = dataclasses.replace(result[_BACKEND].type, takes=", ".join(names), choices=names)
    result[_BACKEND] = dataclasses.replace(result[_BACKEND], type=type)
    for row in registry.every():
        for each in definitions(row.settings_class, row.name):
            result.setdefault(each.key, each)
    return list(result.values())


def _known() -> list[str]:
    return [each.key for each in table()]


def _text(value: Any) -> str:
    """A value as the engine hands it to programs; nothing for one that is encrypted."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, (bool, int, float, list, dict)) else ""


def _unknown(key: str, where: Location) -> Problem:
    near = nearest(key.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in _known()])
    remedy = f"did you mean {PREFIX}{near}?" if near else "`symphony config` lists them"
    return Problem(f"{shown(key)} is not a setting", remedy, (where,))


def _wrong(definition: Definition, text: str, where: Location) -> Problem:
    near = nearest(text, definition.type.choices)
    one_of = "one of " if definition.type.choices else ""
    remedy = f"did you mean {near}?" if near else f"expected {one_of}{definition.type.takes}"
    return Problem(f"invalid value {shown(text)} for {definition.key}", remedy, (where,))
