"""The plan as a table: a long reason shared by several processes is printed once."""

from __future__ import annotations

import pytest

from symphony.cli import plan_table
from symphony.operations.plan import Planned
from symphony.plan.changes import Change


def planned(*changes: Change) -> Planned:
    return Planned(
        "rl",
        "p",
        {"backend": "kubernetes", "processes": [], "services": [], "changed_files": [], "remarks": []},
        changes,
        (),
        5,
    )


def test_a_long_shared_reason_is_printed_once_below_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    images = "image: registry.example.com/team/project/rl:1 -> registry.example.com/team/project/rl:2"
    changes = [Change(name, "restart", (images,)) for name in ("learner", "w-0", "w-1")]
    changes.insert(0, Change("actor", "restart", ("failed: exit 1", images)))
    plan_table.show(planned(*changes, Change("other", "restart", ("env LR: 0.1 -> 0.2",))))
    out = capsys.readouterr().out
    # The reason names two images.
    assert out.count("registry.example.com") == 2
    assert f"actor, learner, w-0..1: {images}\n" in out
    assert "other    restart  env LR: 0.1 -> 0.2" in out
    plan_table.show(planned(changes[0]))
    assert images in " ".join(capsys.readouterr().out.split())
