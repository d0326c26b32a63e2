"""The condition of a process from its record and its job."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from symphony.backends.access import Streams
from symphony.backends.observe import ProcessStatus, Recorded
from symphony.backends.slurm import access, observe
from symphony.errors import SymphonyError
from symphony.supervision import Declaration, Hold, Wait
from symphony_slurm import commands, steps
from symphony_slurm.commands import Job
from symphony_slurm.folder import Ended, Experiment, Folder, Record, Submitted
from symphony_slurm.observe import Queue, condition


def test_a_process_of_a_requeued_job_waits_until_its_supervisor_has_begun(tmp_path: Path) -> None:
    folder, job = Folder(tmp_path), Job(7, "RUNNING")
    folder.process("a").mkdir(parents=True)
    folder.note(Record(path="a", attempt=1, job=7, state="running", ready=True))
    folder.starting.touch()
    assert condition(folder, "a", 1, job).state == "waiting"
    folder.starting.unlink()
    assert condition(folder, "a", 1, job).state == "running"


def test_a_process_whose_start_cannot_be_recorded_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path)
    folder.process("a").mkdir(parents=True)
    folder.note(Record(path="a", attempt=1, job=7, state="running"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=4096))
    assert "no space left" in condition(folder, "a", 2, Job(7, "RUNNING")).reason


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Return an experiment with one process, which ran in job 7; by default, that job runs."""
    folder = Folder(tmp_path)
    folder.process("a").mkdir(parents=True)
    folder.declare(Experiment(owner="p/rl#1", name="rl", supervision=Declaration(name="rl", members={})))
    folder.note_job(Submitted(number=7, submitted=100.0))
    folder.note(Record(path="a", attempt=1, job=7, state="running", node="n1", began=150.0))
    monkeypatch.setattr(commands, "jobs", lambda _: {7: Job(7, "RUNNING")})
    facts = {"path": "a", "attempt": 1, "cwd": "/", "argv": ["sleep"], "log": ""}
    return Recorded("p/rl#1", "rl", {"a": facts}, connection={"folder": str(tmp_path)})


def status_of(recorded: Recorded) -> ProcessStatus:
    (statuses,) = observe.statuses([recorded])
    assert not isinstance(statuses, SymphonyError)
    return statuses[0]


def test_a_requeued_job_is_in_the_queue_again_since_its_last_run_ended(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "jobs", lambda _: {7: Job(7, "PENDING", reason="BeginTime")})
    Folder(tmp_path).note_end(Ended(job=6, why="its processes have completed", at=90.0))
    status = status_of(recorded)
    assert (status.why.split(":")[0], status.since) == ("in the queue", 100.0), "of its first submission"
    Folder(tmp_path).note_end(Ended(job=7, why="it was cancelled or preempted", at=200.0))
    status = status_of(recorded)
    assert (status.state, status.since) == ("waiting", 200.0)
    assert status.why.startswith("in the queue again: BeginTime (")
    links = {link.step: link for link in observe.why(recorded, "a", "rl")}
    assert (links["ended"].what, links["ended"].since) == (
        "the last run of the job: it was cancelled or preempted",
        200.0,
    )
    assert (links["queue"].what, links["queue"].since) == (status.why, 200.0)
    assert not links["ended"].broken


def test_why_is_an_error_if_slurm_does_not_answer(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> dict[int, Job]:
        raise commands.NoAnswer("Slurm does not answer")

    monkeypatch.setattr(commands, "jobs", fail)
    with pytest.raises(commands.NoAnswer):
        observe.why(recorded, "a", "rl")


def test_why_gives_a_reason_for_a_running_process_that_is_not_ready_without_one(recorded: Recorded) -> None:
    (link,) = (link for link in observe.why(recorded, "a", "rl") if link.step == "ready")
    assert link.what == "no: it has just started"


def test_a_command_beside_a_process_that_does_not_run_is_refused_with_the_reason(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "jobs", lambda _: {7: Job(7, "PENDING", reason="BeginTime")})
    with pytest.raises(SymphonyError, match="a does not run: in the queue"):
        access.execute(recorded, "a", ["true"], Streams())
    waiting = Hold(waits_for=(Wait(path="b", condition="completed"),))
    Folder(tmp_path).note(Record(path="a", attempt=1, job=7, state="held", node="n1", hold=waiting))
    with pytest.raises(SymphonyError, match="a has not started yet"):
        access.execute(recorded, "a", ["true"], Streams())


def test_the_end_of_a_process_is_not_awaited_while_its_job_is_requeued(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "jobs", lambda _: {7: Job(7, "PENDING")})
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
    steps.delete({"place": str(tmp_path), "path": "a"}, Queue())
