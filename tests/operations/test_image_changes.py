"""The images that a plan builds, and the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from symphony.operations.plan import IMAGE, image_changes


@dataclass
class Recorded:
    inputs: Mapping[str, Any]
    name: str = "rl"
    type: str = IMAGE
    urn: str = ""
    outputs: Mapping[str, Any] = None  # pyright: ignore[reportAssignmentType]


KNOWN = {
    "f": {"a.py": "1", "b.py": "1", "Dockerfile": "1"},
    "g": {"a.py": "2", "c.py": "1", "Dockerfile": "2"},
}


def inputs(identity: str, **parts: str) -> dict[str, Any]:
    every = {"Dockerfile": "d", "files": "f", **parts}
    return {
        "repository": "r/rl",
        "tag": f"x-{identity}",
        "identity": identity,
        "dockerfile": "Dockerfile",
        "parts": every,
    }


def reasons(before: dict[str, Any] | None, after: dict[str, Any]) -> list[str]:
    planned = [{"name": "rl", "reference": "r/rl:x", "inputs": after}]
    recorded = [Recorded(before)] if before else []
    return [each for row in image_changes(recorded, planned, KNOWN) for each in row.reasons]


def test_image_changes_list_the_reason_of_each_build() -> None:
    assert reasons(None, inputs("1")) == ["new"]
    assert reasons(inputs("1"), inputs("1")) == []
    assert reasons(inputs("1"), inputs("2", files="g")) == ["4 files: Dockerfile, a.py, b.py and 1 more"]
    assert reasons(inputs("1"), inputs("2", files="g", Dockerfile="e")) == [
        "Dockerfile",
        "3 files: a.py, b.py, c.py",
    ]
    assert reasons(inputs("1"), inputs("3", build_args="h")) == ["build_args"]
    assert reasons(inputs("0", files="unknown"), inputs("2", files="g")) == ["files"]
    moved = inputs("1") | {"repository": "s/rl"}
    assert reasons(inputs("1"), moved) == ["repository: r/rl -> s/rl"]


def test_a_pinned_image_of_an_earlier_run_is_not_built() -> None:
    pinned = "r/rl@sha256:1"
    planned = [{"name": "rl", "reference": "r/rl:x", "inputs": inputs("1") | {"pinned": pinned}}]
    (row,) = image_changes([Recorded(inputs("2"), outputs={"image": "r/rl@sha256:2"})], planned, KNOWN)
    assert (row.reference, row.needs_build) == (pinned, False)
    assert "build and push" not in str(row)
    assert image_changes([Recorded(inputs("1"), outputs={"image": pinned})], planned, KNOWN) == ()
