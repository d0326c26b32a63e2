"""Lines of `pulumi --json` are parsed into typed events."""

from __future__ import annotations

import json

import pytest

from symphony.engine.run.events import Diagnostic, Failed, Finished, Reader, Started, Summary

URN = "urn:pulumi:rl::symphony::symphony:index:Experiment$symphony:index:Process::agent-0"
STATE = {"urn": URN, "type": "t", "id": "%4", "parent": "p", "inputs": {"a": 1}, "outputs": {"a": 1, "b": 2}}


def line(**body: object) -> bytes:
    return json.dumps({"sequence": 1, "timestamp": 2, **body}, separators=(",", ":")).encode()


def step(**more: object) -> dict[str, object]:
    return {"metadata": {"op": "update", "urn": URN, "type": "t", "old": STATE, "new": STATE, **more}}


@pytest.mark.parametrize("gone", ["old", "new"])
def test_events_of_a_resource_from_start_to_end(gone: str) -> None:
    reader = Reader()
    started = reader.read(line(resourcePreEvent=step(**{gone: None})), 10.0)
    assert isinstance(started, Started)
    assert (started.step.name, started.step.op, started.preview) == ("agent-0", "update", False)
    assert started.step.parent == "p"
    finished = reader.read(line(resOutputsEvent=step()), 12.5)
    assert isinstance(finished, Finished)
    assert finished.seconds == 2.5


def test_failure_diagnostic_summary_and_preview_events() -> None:
    reader = Reader()
    failed = reader.read(line(resOpFailedEvent={**step(), "status": 0, "steps": 1}), 1.0)
    assert isinstance(failed, Failed)
    assert failed.seconds == 0.0
    result = reader.read(line(diagnosticEvent={"severity": "error", "message": "no", "urn": URN}), 1.0)
    assert result == Diagnostic("error", "no", URN)
    body = {"resourceChanges": {"same": 3}, "durationSeconds": 4, "isPreview": True, "result": "succeeded"}
    assert reader.read(line(summaryEvent=body), 1.0) == Summary({"same": 3}, 4.0, True, "succeeded")
    planned = reader.read(line(resourcePreEvent={**step(), "planning": True}), 1.0)
    assert isinstance(planned, Started)
    assert planned.preview


def test_unused_events_are_ignored() -> None:
    reader = Reader()
    for text in (
        line(diagnosticEvent={"severity": "debug", "message": "registering"}),
        line(preludeEvent={"config": {"a": "b"}}),
        line(cancelEvent={}),
        line(somethingNew={"a": 1}),
        b"",
        b"Updating (rl):",
        b"{not json",
        b"{}",
    ):
        assert reader.read(text, 0.0) is None
