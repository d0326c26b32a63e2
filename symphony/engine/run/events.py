"""The typed events and the outcome of an engine run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from symphony.run_request import REPORT


@dataclass(frozen=True, slots=True)
class Step:
    """An operation of the engine on one resource.

    Attributes:
        parent: The urn of its parent.
        changed: The properties that force a replacement; if none does, those that differ.
        old, new: Its inputs in the state and in the program; empty if it is not there.
        old_outputs, new_outputs: Its outputs in the state and after the operation; None if it is not there.
    """

    urn: str
    type: str
    op: str
    parent: str = ""
    changed: tuple[str, ...] = ()
    old: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)
    new: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)
    old_outputs: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    new_outputs: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.urn.rpartition("::")[2]

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Its inputs after the operation, or those before a deletion."""
        return self.new or self.old


class Started(msgspec.Struct, frozen=True):
    """Work on a resource begins (in a preview: would begin)."""

    step: Step
    preview: bool = False


class Finished(msgspec.Struct, frozen=True):
    """Work on a resource succeeded, `seconds` after it began."""

    step: Step
    seconds: float = 0.0
    preview: bool = False


class Failed(msgspec.Struct, frozen=True):
    """Work on a resource failed; a Diagnostic before this event has the reason."""

    step: Step
    seconds: float = 0.0


class Diagnostic(msgspec.Struct, frozen=True):
    """A message of the engine, a provider or the program; severity is info, info#err, warning or error."""

    severity: str
    message: str
    urn: str = ""
    ephemeral: bool = False


class Summary(msgspec.Struct, frozen=True):
    """The number of resources by operation, at the end of a run."""

    changes: Mapping[str, int] = msgspec.field(default_factory=lambda: {})


class Note(msgspec.Struct, frozen=True):
    """A line about an action of symphony itself, such as removing the lock of a dead owner."""

    text: str


class Report(msgspec.Struct, frozen=True):
    """Facts that the user's program reports to the `symphony` command that runs it."""

    facts: Mapping[str, Any]


class Idle(msgspec.Struct, frozen=True):
    """No event has come for a moment; progress can be shown."""


class RunRestarted(msgspec.Struct, frozen=True):
    """The engine starts again; earlier events do not count."""


Verb = Literal["up", "preview", "destroy", "refresh"]
Result = Literal["succeeded", "failed", "interrupted"]


class Outcome(msgspec.Struct, frozen=True):
    """The end of a run; errors.check() raises its error unless it succeeded.

    is_terminated: whether it was interrupted by SIGTERM, which `symphony delete` sends, and not by Ctrl-C.
    """

    verb: Verb
    stack: str
    project: str
    folder: Path
    result: Result
    exit_code: int
    summary: Summary | None
    diagnostics: tuple[Diagnostic, ...]
    stderr: str
    seconds: float
    is_terminated: bool = False


_REPORT = REPORT.encode()

Event = Started | Finished | Failed | Diagnostic | Summary | Note | Report | Idle | RunRestarted


class Reader:
    """Converts the lines of `pulumi --json` to events, and measures operations."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}

    def parse(self, line: bytes, now: float) -> Event | None:
        """Return the event of one line; None for a line that is not an event, or is not needed."""
        # The program's SDK sends six debug lines a resource: skip them before they cost a parse.
        is_debug = b'"severity":"debug"' in line and _REPORT not in line
        if is_debug or not line.startswith(b"{"):
            return None
        try:
            raw: Any = json.loads(line)
        except ValueError:
            return None
        return self._event(cast("dict[str, Any]", raw), now) if isinstance(raw, dict) else None

    def _event(self, raw: dict[str, Any], now: float) -> Event | None:
        if body := raw.get("resourcePreEvent"):
            step = _step(body["metadata"])
            self._began.setdefault(step.urn, now)
            return Started(step, bool(body.get("planning")))
        if body := raw.get("resOutputsEvent"):
            step = _step(body["metadata"])
            return Finished(step, self._seconds(step.urn, now), bool(body.get("planning")))
        if body := raw.get("resOpFailedEvent"):
            step = _step(body["metadata"])
            return Failed(step, self._seconds(step.urn, now))
        if body := raw.get("diagnosticEvent"):
            return _diagnostic(body)
        if body := raw.get("summaryEvent"):
            return Summary(body.get("resourceChanges") or {})
        return None

    def _seconds(self, urn: str, now: float) -> float:
        return max(0.0, now - self._began.pop(urn, now))


def _step(raw: dict[str, Any]) -> Step:
    state = cast("dict[str, Any]", raw.get("new") or raw.get("old") or {})
    return Step(
        urn=str(raw.get("urn", "")),
        type=str(raw.get("type", "")),
        op=str(raw.get("op", "")),
        parent=str(state.get("parent", "")),
        changed=tuple(map(str, raw.get("keys") or raw.get("diffs") or ())),
        old=_inputs(raw.get("old")),
        new=_inputs(raw.get("new")),
        old_outputs=_outputs(raw.get("old")),
        new_outputs=_outputs(raw.get("new")),
    )


def _outputs(state: dict[str, Any] | None) -> dict[str, Any] | None:
    return state.get("outputs") or {} if state else None


def _inputs(state: dict[str, Any] | None) -> dict[str, Any]:
    return (state or {}).get("inputs") or {}


def _diagnostic(raw: dict[str, Any]) -> Diagnostic | Report | None:
    if raw.get("severity") == "debug":
        prefix, _, facts = str(raw.get("message", "")).partition(REPORT)
        return Report(json.loads(facts)) if facts and not prefix else None
    return Diagnostic(
        severity=str(raw.get("severity", "")),
        message=str(raw.get("message", "")),
        urn=str(raw.get("urn", "")),
        ephemeral=bool(raw.get("ephemeral")),
    )
