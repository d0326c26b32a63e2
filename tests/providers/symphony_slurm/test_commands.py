"""Calls of Slurm programs: squeue of three versions is parsed, variables filtered, errors quoted."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from symphony_slurm import commands
from symphony_slurm.commands import Job
from symphony_slurm.observe import in_queue

JOBS = """7|PENDING|2026-11-25T14:20:00|2:00:00|Priority|p/rl#12345678
9_1|RUNNING|N/A|1:00|None|(null)
8|RUNNING|2026-11-25T12:00:00|59:59|None|a|b
"""
# The options of squeue that Slurm 20.11 knows too.
KNOWN = {"-h", "-u", "-t", "-o"}


def install_program(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a program of this name and put it first on PATH."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


# Slurm 23.11 prints a warning or the heading of a federation first, 20.11 and 22.05 do not.
@pytest.mark.parametrize("heading", ["", "CLUSTER: lab\n"])
def test_the_output_of_squeue_is_parsed(
    heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "said").write_text(heading + JOBS)
    install_program(tmp_path, "squeue", f'echo "$@" >{tmp_path}/asked; cat {tmp_path}/said', monkeypatch)
    jobs = commands.jobs("")
    assert jobs == {
        7: Job(7, "PENDING", "2026-11-25T14:20:00", "2:00:00", "Priority", "p/rl#12345678"),
        8: Job(8, "RUNNING", "2026-11-25T12:00:00", "59:59", "None", "a|b"),
    }
    assert {word for word in (tmp_path / "asked").read_text().split() if word.startswith("-")} <= KNOWN
    words = "in the queue: Priority (other jobs have a higher priority), starts about"
    assert in_queue(jobs[7]) == f"{words} 2026-11-25 14:20"
    today = replace(jobs[7], start=time.strftime("%Y-%m-%dT23:59:00"))
    assert in_queue(today) == f"{words} 23:59"


def test_nodes_and_their_states_are_read_without_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "CLUSTER: lab\\nn1 main* mix-\\nn2 main* drain*\\nn2 gpu drain*\\n"
    install_program(tmp_path, "sinfo", f"printf '{rows}'", monkeypatch)
    main = {"n1": "mix", "n2": "drain"}
    assert commands.nodes_by_partition("") == {"main": main, "": main, "gpu": {"n2": "drain"}}


def test_time_limits_of_sinfo_and_times_of_sbatch_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_program(
        tmp_path, "sinfo", "printf 'main* 1-00:00:00\\nshort 10:00\\nlong infinite\\n'", monkeypatch
    )
    limits = commands.time_limits("")
    assert limits == {"main": "1-00:00:00", "short": "10:00", "long": "infinite", "": "1-00:00:00"}
    assert [commands.seconds_of(limit) for limit in limits.values()] == [86400, 600, float("inf"), 86400]
    times = ["90", "90:30", "1:30:00", "2-12", "2-12:30"]
    assert [commands.seconds_of(time) for time in times] == [5400, 5430, 5400, 216000, 217800]


def test_the_components_of_a_heterogeneous_job_are_one_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "13+1|PENDING|2026-11-25T16:00:00|10:00|Resources|\n13+0|PENDING|N/A|1:00:00|None|p/rl#1\n"
    rows += "12+0|RUNNING|N/A|1:00:00|None|p/rl#1\n12+1|CANCELLED|N/A|9:00|None|p/rl#1\n"
    rows += "11+0|CANCELLED|N/A|1:00|None|\n11+1|COMPLETING|N/A|1:00|None|\n"
    install_program(tmp_path, "squeue", f"printf '{rows}'", monkeypatch)
    jobs = commands.jobs("")
    waiting = jobs[13]
    assert (waiting.start, waiting.left, waiting.comment) == ("2026-11-25T16:00:00", "10:00", "p/rl#1")
    assert "Resources" in in_queue(waiting)
    assert (jobs[12].has_ended, [each.has_ended for each in jobs[12].components]) == (False, [True])
    assert (jobs[11].has_ended, jobs[11].has_processes) == (True, True)


def test_slurm_variables_of_the_users_shell_do_not_reach_slurm_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_program(tmp_path, "squeue", f"env >{tmp_path}/env", monkeypatch)
    for name in ("SLURM_JOB_ID", "SBATCH_PARTITION", "SQUEUE_FORMAT", "SECRET"):
        monkeypatch.setenv(name, "of-outside")
    commands.jobs("/etc/slurm/ours.conf")
    assert "SLURM_CONF=/etc/slurm/ours.conf" in (tmp_path / "env").read_text().splitlines()
    assert "of-outside" not in (tmp_path / "env").read_text()


def test_cancelling_a_job_that_just_ended_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = "scancel: error: Kill job error on job id 5: Invalid job id specified"
    install_program(tmp_path, "scancel", f'echo "{error}" >&2; exit 1', monkeypatch)
    commands.cancel("", [5], "--signal=USR1", "--batch")


def test_an_error_of_sbatch_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = "sbatch: error: invalid partition specified: nope"
    install_program(tmp_path, "sbatch", f'echo "{error}" >&2; exit 1', monkeypatch)
    with pytest.raises(commands.SymphonyError) as raised:
        commands.submit("", ["--partition=nope"], "batch.sh")
    assert "invalid partition specified: nope" in raised.value.what


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        (
            "sbatch: unrecognized option '--nonsense'\nTry \"sbatch --help\" for more information",
            "unrecognized option '--nonsense'",
        ),
        (
            "sbatch: lua: a note of the site\nsbatch: error: CPU count per node can not be satisfied\n"
            "allocation failure: Requested node configuration is not available",
            "CPU count per node can not be satisfied",
        ),
        ("allocation failure: Invalid qos specification", "allocation failure: Invalid qos specification"),
        ("", "sbatch --test-only printed nothing"),
    ],
)
def test_the_line_of_sbatch_that_names_the_fault_is_quoted(
    said: str, quoted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "said").write_text(said)
    install_program(tmp_path, "sbatch", f"cat {tmp_path}/said >&2; exit 1", monkeypatch)
    with pytest.raises(commands.SymphonyError) as raised:
        commands.expected_start("", ["--nonsense"])
    assert raised.value.what == quoted
