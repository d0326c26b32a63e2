"""The condition of a process from its record and its job."""

from __future__ import annotations

from pathlib import Path

from symphony_slurm.commands import Job
from symphony_slurm.folder import Folder, Record
from symphony_slurm.observe import condition


def test_a_process_of_a_requeued_job_waits_until_its_supervisor_has_begun(tmp_path: Path) -> None:
    folder, job = Folder(tmp_path), Job(7, "RUNNING")
    folder.process("a").mkdir(parents=True)
    folder.note(Record(path="a", attempt=1, job=7, state="running", ready=True))
    folder.starting.touch()
    assert condition(folder, "a", 1, job).state == "waiting"
    folder.starting.unlink()
    assert condition(folder, "a", 1, job).state == "running"
