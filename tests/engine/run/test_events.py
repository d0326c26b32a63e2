"""Lines of `pulumi --json` are parsed into typed events."""

from __future__ import annotations

import json

from symphony.engine.run.events import Reader


def line(**body: object) -> bytes:
    return json.dumps({"sequence": 1, "timestamp": 2, **body}, separators=(",", ":")).encode()


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
        assert reader.parse(text, 0.0) is None
