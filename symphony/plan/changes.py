"""What an `up` would do to each process: recorded inputs against planned ones, as rows for the CLI."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from symphony.plan import code
from symphony.plan.code import CodeSets
from symphony.plan.names import printable

Kind = Literal["start", "restart", "stop", "keep"]
Inputs = Mapping[str, Any]
# What a user writes for an input of a resource that is called otherwise.
_SETTINGS = {
    "argv": "args",
    "script": "cmds",
    "preamble": "preamble_cmds",
    "cwd": "start_dir",
    "secret_digests": "secret_env",
}
# Variables whose values are nobody's to read over a shoulder.
_SECRET = re.compile(r"(?i)secret|token|passw|passphrase|key|credential|auth|://[^/]*@")
# What another process of the same group does to its pod, by whether it is in it before and after.
_MEMBERS = {
    (False, True): "joins its pod",
    (True, False): "leaves its pod",
    (True, True): "changes in its pod",
}
_PORT = re.compile(r"SYMPH_(\w+)_PORT")


@dataclass(frozen=True)
class Change:
    """One process and what happens to it, and every reason for that."""

    path: str
    kind: Kind
    reasons: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        return "; ".join(self.reasons)

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "kind": self.kind, "why": list(self.reasons)}


def changes(
    recorded: Mapping[str, Inputs],
    planned: Mapping[str, Inputs],
    changed_fields: Callable[[Inputs, Inputs], Sequence[str]],
    restart_reasons: Mapping[str, str],
    code_sets: CodeSets | None = None,
) -> tuple[Change, ...]:
    """One row a process: planned ones in the order of the plan, then those no longer declared.

    changed_fields: the settings that make a running process restart (the backend's rule).
    restart_reasons: path -> why a recorded process does not run as it should.
    code_sets: the files that digests of code stand for, recorded ones and planned ones.
    """
    rows = [
        _change(path, recorded.get(path), inputs, changed_fields, restart_reasons, code_sets or {})
        for path, inputs in planned.items()
    ]
    rows += [Change(path, "stop", ("no longer declared",)) for path in recorded if path not in planned]
    return tuple(rows)


def _change(
    path: str,
    old: Inputs | None,
    new: Inputs,
    changed_fields: Callable[[Inputs, Inputs], Sequence[str]],
    restart_reasons: Mapping[str, str],
    code_sets: CodeSets,
) -> Change:
    if old is None:
        return Change(path, "start", ("new",))
    reasons = [why for setting in changed_fields(old, new) for why in _why(setting, old, new, code_sets)]
    if path in restart_reasons:
        reasons.insert(0, restart_reasons[path])
    return Change(path, "restart", tuple(reasons)) if reasons else Change(path, "keep")


def _why(setting: str, old: Inputs, new: Inputs, code_sets: CodeSets) -> Iterator[str]:
    before, after = old.get(setting), new.get(setting)
    setting = _SETTINGS.get(setting, setting)
    if isinstance(before or after, Mapping):
        yield from _variables(setting, cast("Inputs", before or {}), cast("Inputs", after or {}), code_sets)
    elif isinstance(before or [], list) and isinstance(after or [], list):
        yield f"{setting}: {_lists(cast('list[Any]', before or []), cast('list[Any]', after or []))}"
    else:
        yield f"{setting}: {_text(before)} -> {_text(after)}"


def _variables(setting: str, before: Inputs, after: Inputs, code_sets: CodeSets) -> Iterator[str]:
    """`env LR: 0.1 -> 0.2`, `port of replay: 7001 -> 7002`; of what may be a secret only the name."""
    names = _changed_names(before, after)
    if setting == "group":
        yield ", ".join(f"{name} {_MEMBERS[name in before, name in after]}" for name in names)
        return
    if code.VARIABLE in names:
        names.remove(code.VARIABLE)
        yield code.why(before.get(code.VARIABLE), after.get(code.VARIABLE), code_sets)
    ports = [name for name in names if _PORT.fullmatch(name)]
    if names:
        yield ", ".join(
            _variable(setting, name, before.get(name), after.get(name)) for name in ports or names
        )


def _variable(setting: str, name: str, before: Any, after: Any) -> str:
    if port := _PORT.fullmatch(name):
        return f"port of {port[1].lower().replace('_', '-')}: {_text(before)} -> {_text(after)}"
    if setting == "secret_env" or any(_SECRET.search(str(each)) for each in (name, before, after)):
        return f"{setting} {_text(name)}: changed"
    if isinstance(before or after, (Mapping, list)):
        return f"{setting}: {_text(name)}"
    return f"{setting} {_text(name)}: {_text(before)} -> {_text(after)}"


def _changed_names(before: Inputs, after: Inputs) -> list[str]:
    return [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def _lists(before: list[Any], after: list[Any]) -> str:
    """The part that differs, with one word of context before it: `--lr 1e-3 -> 3e-4`."""
    start = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    if start is None:
        start = min(len(before), len(after))
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    context = f"{_text(before[start - 1])} " if start else ""
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    return f"{context}{_text(' '.join(map(str, old)))} -> {_text(' '.join(map(str, new)))}"


def _text(value: Any) -> str:
    return "nothing" if value in (None, "") else printable(str(value), 60)
