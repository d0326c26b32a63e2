"""The change that an `up` makes to each process and the reason in words, as rows for the command line.

A process restarts if its fingerprint differs from the recorded fingerprint. The reasons are the component
inputs that differ between the state and the program, as the engine reports them.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, Literal, cast

import msgspec

from symphony.plan import code
from symphony.plan.code import CodeSets
from symphony.plan.names import RENDEZVOUS, printable, sort_key

Kind = Literal["start", "restart", "stop", "keep"]
Inputs = Mapping[str, Any]
# Variables whose values must not be shown.
_SECRET = re.compile(r"(?i)secret|token|passw|passphrase|key|credential|auth|://[^/]*@")
_PORT = re.compile(r"SYMPH_(\w+)_PORT")
# Inputs that are no reasons: names, values that `services`, `secret_env` and the pod contain as well, and
# the settings of order and ends, which restart nothing.
_NOT_COMPARED = (
    *("path", "name", "group", "where", "binds", "connects", "exposes", "uses"),
    *("service_env", "secret_digests", "fingerprint", "code", "code_files", "place", "pod", "labels"),
    *("depends_on", "waits_for", "termination_delay"),
)
# The parts of `place` that no other input contains.
_OF_NODES = ("constraint", "partition")

# The settings of a process that resources of the experiment carry out: its supervisor and its addresses.
_OF_EXPERIMENT = (
    *("binds", "connects", "exposes", "waits_for"),
    *("readiness_probe", "liveness_probe", "termination_delay"),
)

# A probe that is new or gone is named by what it asks for, not by its periods and thresholds.
_PROBES = ("readiness_probe", "liveness_probe")
_HANDLERS = ("tcp", "http", "exec", "log", "port")


class Change(msgspec.Struct, frozen=True):
    """The change that an `up` makes to a process, with every reason.

    follows: whether the supervisor of the experiment restarts it, as another process restarts.
    """

    path: str
    kind: Kind
    reasons: tuple[str, ...] = ()
    follows: bool = False

    @property
    def why(self) -> str:
        return "; ".join(self.reasons)

    def to_json(self) -> dict[str, Any]:
        follows = {"follows": True} if self.follows else {}
        return {"path": self.path, "kind": self.kind, "why": list(self.reasons), **follows}


class Component(msgspec.Struct, frozen=True):
    """The inputs of a component: `old` from the state (empty if it is new), `new` from the program."""

    old: Inputs = msgspec.field(default_factory=dict[str, Any])
    new: Inputs = msgspec.field(default_factory=dict[str, Any])


class Components(msgspec.Struct, frozen=True):
    """The components of an experiment; processes by path, groups by name."""

    experiment: Component
    groups: Mapping[str, Component]
    processes: Mapping[str, Component]

    @property
    def code_sets(self) -> CodeSets:
        """The files of every code digest, recorded or new."""
        members = (process.old.get("code_files") for process in self.processes.values())
        return {**_unpack_all([self.experiment.old.get("code"), *members]), **self.new_code}

    @property
    def new_code(self) -> CodeSets:
        """The files of every code digest of the program."""
        members = (process.new.get("code_files") for process in self.processes.values())
        return _unpack_all([self.experiment.new.get("code"), *members])


def _unpack_all(texts: Iterable[str | None]) -> CodeSets:
    code_sets = (code.unpack(text) for text in dict.fromkeys(texts) if text)
    return {digest: files for code_set in code_sets for digest, files in code_set.items()}


def changes(
    recorded: Mapping[str, str],
    components: Components,
    restart_reasons: Mapping[str, str],
    ignored: frozenset[str] = frozenset(),
) -> tuple[Change, ...]:
    """Return a row for each process: the declared processes in order, then those no longer declared.

    Args:
        recorded: The fingerprint of each process in the state.
        components: The inputs of the components.
        restart_reasons: The processes that restart although their settings did not change, with the reason.
        ignored: The settings that this backend does not use.
    """
    code_sets = components.code_sets
    differences = {path: _differences(path, components, ignored, code_sets) for path in components.processes}
    rows: list[Change] = []
    for path, component in components.processes.items():
        if path not in recorded:
            rows.append(Change(path, "start", ("new",)))
            continue
        reasons = [restart_reasons[path]] if path in restart_reasons else []
        if recorded[path] != component.new.get("fingerprint"):
            reasons += (
                differences[path]
                or _pod_changes(path, components, differences)
                or ["changed since it was started"]
            )
        rows.append(Change(path, "restart" if reasons else "keep", tuple(reasons)))
    removed = sorted((path for path in recorded if path not in components.processes), key=sort_key)
    rows += [Change(path, "stop", ("no longer declared",)) for path in removed]
    return tuple(rows)


def with_followers(
    rows: Iterable[Change], components: Components, has_completed: Callable[[str], bool]
) -> tuple[Change, ...]:
    """Return the rows, in which the running processes also restart that follow a restart.

    These are the other equal workers, and those with `depends_on(restart_with=True)`.
    """
    by_path = {row.path: row for row in rows}
    restarting = [path for path, row in by_path.items() if row.kind == "restart"]
    # The list grows: a process may follow one that follows another.
    for path in restarting:
        for other, component in components.processes.items():
            if by_path[other].kind != "keep" or not _follows(component.new, path, components):
                continue
            if not has_completed(other):
                by_path[other] = Change(other, "restart", (f"restarts with {path}",), follows=True)
                restarting.append(other)
    return tuple(by_path.values())


def _follows(inputs: Inputs, path: str, components: Components) -> bool:
    """Return whether a process restarts when the process `path` does."""
    if any(wait["path"] == path and wait.get("restart_with") for wait in inputs.get("waits_for") or ()):
        return True
    leader = components.processes.get(path, Component())
    group = rendezvous_of(inputs)
    return group is not None and group == rendezvous_of(leader.new)


def rendezvous_of(inputs: Inputs) -> str | None:
    """Return the rendezvous of a process; None if it is no equal worker."""
    variables: Inputs = inputs.get("service_env") or {}
    return variables.get(RENDEZVOUS)


def digest_of_supervision(inputs: Inputs) -> str:
    """Return a digest of the settings of a process that its own resources do not carry out."""
    own = json.dumps({name: inputs[name] for name in _OF_EXPERIMENT if inputs.get(name)})
    # The engine's state has no nulls, and 600 for 600.0.
    plain = json.loads(own, parse_int=float, object_hook=_without_nulls)
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:8]


def _without_nulls(inputs: Inputs) -> Inputs:
    return {name: value for name, value in inputs.items() if value is not None}


def _differences(
    path: str, components: Components, ignored: frozenset[str], code_sets: CodeSets
) -> list[str]:
    component = components.processes[path]
    if not component.old:
        return []
    group = components.groups.get(path.rpartition("/")[0], Component())
    experiment = components.experiment
    old = _settings(component.old, group.old, experiment.old)
    new = _settings(component.new, group.new, experiment.new)
    names = (name for name in {**new, **old} if (old.get(name) or None) != (new.get(name) or None))
    return [reason for name in names if name not in ignored for reason in _why(name, old, new, code_sets)]


def _settings(process: Inputs, group: Inputs, experiment: Inputs) -> dict[str, Any]:
    """Return the settings of a process as the user names them."""
    place: Inputs = process.get("place") or {}
    shared = {
        "place": {name: place[name] for name in _OF_NODES if place.get(name)},
        # The physical name, which symphony:namespace sets.
        "namespace": experiment.get("launched_as"),
        "inherit": experiment.get("inherit"),
        "secret_env": process.get("secret_digests"),
    }
    pod: Inputs = group.get("pod") or process.get("pod") or {}
    own = {name: value for name, value in {**process, **pod}.items() if name not in _NOT_COMPARED}
    return {**own, **shared}


def _pod_changes(path: str, components: Components, differences: Mapping[str, list[str]]) -> list[str]:
    """Return how other processes of the group change the pod that they share."""
    group = path.rpartition("/")[0]
    before, after = (
        {other for other in inputs.get("processes") or () if group and other.startswith(f"{group}/")}
        for inputs in (components.experiment.old, components.experiment.new)
    )
    effects = {
        **dict.fromkeys(after - before, "joins its pod"),
        **dict.fromkeys(before - after, "leaves its pod"),
        **{
            other: "changes in its pod"
            for other in before & after
            if differences.get(other) and other != path
        },
    }
    reasons = [f"{other.rpartition('/')[2]} {effect}" for other, effect in sorted(effects.items())]
    return [", ".join(reasons)] if reasons else []


def _why(setting: str, old: Inputs, new: Inputs, code_sets: CodeSets) -> Iterator[str]:
    before, after = old.get(setting), new.get(setting)
    if setting == "allocation":
        # Its values are digests.
        yield "a new allocation"
    elif isinstance(before or after, Mapping):
        yield from _variables(setting, cast("Inputs", before or {}), cast("Inputs", after or {}), code_sets)
    elif isinstance(before or [], list) and isinstance(after or [], list):
        yield f"{setting}: {_lists(cast('list[Any]', before or []), cast('list[Any]', after or []))}"
    else:
        yield f"{setting}: {_text(before)} -> {_text(after)}"


def _variables(setting: str, before: Inputs, after: Inputs, code_sets: CodeSets) -> Iterator[str]:
    """Yield `env LR: 0.1 -> 0.2` or `port of replay: 7001 -> 7002`; omit values that may be secret."""
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    if setting in _PROBES and not (before and after):
        names = [name for name in names if name in _HANDLERS]
    if code.VARIABLE in names:
        names.remove(code.VARIABLE)
        yield code.why(before.get(code.VARIABLE), after.get(code.VARIABLE), code_sets)
    # The host and the address of a service change with its port.
    ports = [name for name in names if _PORT.fullmatch(name)]
    if names:
        yield ", ".join(
            _variable(setting, name, before.get(name), after.get(name)) for name in ports or names
        )


def _variable(setting: str, name: str, before: Any, after: Any) -> str:
    if port := _PORT.fullmatch(name):
        return f"port of {port[1].lower().replace('_', '-')}: {_text(before)} -> {_text(after)}"
    if setting == "secret_env" or any(_SECRET.search(str(text)) for text in (name, before, after)):
        return f"{setting} {_text(name)}: changed"
    if isinstance(before or after, (Mapping, list)):
        return f"{setting}: {_text(name)}"
    # A variable may be set, and empty.
    old, new = ('""' if value == "" else _text(value) for value in (before, after))
    return f"{setting} {_text(name)}: {old} -> {new}"


def _lists(before: list[Any], after: list[Any]) -> str:
    """Return the part that differs; if it is replaced, after one word of context: `--lr 1e-3 -> 3e-4`."""
    if any(isinstance(item, Mapping) for item in (*before, *after)):
        return "changed"
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    edits = [edit for edit in matcher.get_opcodes() if edit[0] != "equal"]
    (_, start, _, new_start, _), (_, _, end, _, new_end) = edits[0], edits[-1]
    old, new = before[start:end], after[new_start:new_end]
    context = f"{_text(before[start - 1])} " if start and old and new else ""
    return f"{context}{_text(' '.join(map(str, old)))} -> {_text(' '.join(map(str, new)))}"


def _text(value: Any) -> str:
    return "nothing" if value in (None, "") else printable(str(value), 60)
