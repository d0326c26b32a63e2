"""Failures of a node, of the memory or of the disk, and preemption by another job."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.slurm.conftest import Lab
from tests.sandbox import wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
TWO = """
with Experiment() as e:
    for name in ("a", "b"):
        e.new_process(name, "exec sleep 1000")
"""


def up(lab: Lab, program: str = TWO, **settings: str) -> str:
    lab.sandbox.config("rl", **settings)
    lab.sandbox.write(program)
    lab.sandbox.symphony("up", "rl", "-y", timeout=120)
    (job,) = lab.jobs()
    return job


def await_requeued(lab: Lab, job: str) -> None:
    """Wait until the job runs again."""
    lab.begin_now(job)
    for path in ("a", "b"):
        lab.becomes(path, "running", 150)
    assert lab.jobs() == [job]


def test_slurm_requeues_a_job_whose_node_failed(lab: Lab) -> None:
    job = up(lab, partition="spare")
    before, node = lab.sandbox.trees(), lab.sandbox.processes("rl")["b"]["node"]
    try:
        lab.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        assert "in the queue" in lab.becomes("b", "waiting")["why"]
        assert "one of its nodes failed" in lab.sandbox.symphony("why", "rl", "b").out
    finally:
        # The node may have recovered by itself.
        lab.ask("sh", "-c", f"scontrol update nodename={node} state=resume || true")
    wait_for(lambda: "down" not in lab.ask("sinfo", "-h", "-n", node, "-o", "%t"), 40, "the node is back")
    await_requeued(lab, job)
    after = lab.sandbox.trees()
    assert not {*before["rl/a"], *before["rl/b"]} & {*after["rl/a"], *after["rl/b"]}


def test_a_job_for_drained_nodes_waits_in_the_queue(lab: Lab) -> None:
    lab.ask("scontrol", "update", "nodename=n5,n6", "state=drain", "reason=test")
    try:
        lab.sandbox.config("rl", partition="spare", patience="1")
        lab.sandbox.write(TWO)
        out = lab.sandbox.symphony("up", "rl", "-y", code=1).out
        assert "n5 drain" in out
        assert "in the queue" in out
    finally:
        lab.ask("scontrol", "update", "nodename=n5,n6", "state=resume")
    lab.becomes("a", "running", 60)


def test_a_preempted_job_restarts_its_processes(lab: Lab) -> None:
    job = up(lab, partition="spare")
    with lab.foreign_job("--partition=urgent", "--nodes=2", "--exclusive"):
        assert "in the queue again" in lab.becomes("a", "waiting")["why"]
        assert "it was preempted" in lab.sandbox.symphony("why", "rl", "a").out
    await_requeued(lab, job)


def test_a_change_of_the_allocation_that_sbatch_refused_is_not_used_once_it_is_reverted(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(lab, time="30")
    sbatch = tmp_path / "bin/sbatch"
    sbatch.parent.mkdir()
    refusing = 'case "$*" in *--test-only*) ;; *) echo "sbatch: error: job submit limit" >&2; exit 1;; esac'
    sbatch.write_text(f'#!/bin/sh\n{refusing}\nexec {shutil.which("sbatch")} "$@"\n')
    sbatch.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setitem(lab.sandbox.environment, "PATH", f"{sbatch.parent}:{os.environ['PATH']}")
        lab.sandbox.config("rl", time="45")
        ran = lab.sandbox.symphony("up", "rl", "-y", timeout=120, code=1)
        assert "job submit limit" in ran.out + ran.err
    job = up(lab, time="30")
    assert lab.ask("squeue", "-h", "-j", job, "-o", "%l").strip() == "30:00"


def test_a_process_that_exceeds_the_job_memory_is_reported_out_of_memory(lab: Lab) -> None:
    lab.sandbox.config("rl", sbatchOptions='["--acctg-freq=task=1"]')
    hog = "import time; x = b'x' * (900 << 20); time.sleep(1000)"
    up(
        lab,
        f"""
from symphony import Resources
with Experiment() as e:
    e.new_process("hog", "sleep 2; exec python3 -c \\"{hog}\\"", resources=Resources(memory="400Mi"))
    e.new_process("other", "exec sleep 1000")
""",
    )

    def ended() -> str | None:
        status = lab.sandbox.processes("rl")["hog"]
        return status["why"] if status["state"] in ("failed", "lost") else None

    # Slurm takes samples, late ones on a busy machine.
    assert "out of memory" in wait_for(ended, 90, "the hog has ended", pause=0.5)
    assert any("out of memory" in link["what"] for link in lab.why("hog"))
    assert lab.sandbox.processes("rl")["other"]["state"] == "running"


def test_processes_run_on_nodes_with_the_requested_gpus_and_features(lab: Lab) -> None:
    lab.sandbox.config("rl", nodes="1")
    up(
        lab,
        """
with Experiment() as e:
    show = "echo gpus $CUDA_VISIBLE_DEVICES; exec sleep 1000"
    e.new_process("a", show, place=Place(gpu=2, gpu_type="v100"))
    e.new_process("b", show, place=Place(constraint="fast"))
""".replace("with", "from symphony import Place\nwith", 1),
    )
    assert {status["node"] for status in lab.sandbox.processes("rl").values()} == {"n1"}
    lines = [line["text"] for line in lab.lines()]
    assert sorted(lines) == ["gpus", "gpus 0,1"]
    lab.sandbox.write(
        "from symphony import Place\n" + TWO.replace('000")', '000", place=Place(constraint="x"))')
    )
    ran = lab.sandbox.symphony("plan", "rl", code=2)
    assert "constraint x" in ran.out + ran.err


def test_steps_survive_the_end_of_slurmd_and_need_no_login_node(lab: Lab) -> None:
    job = up(lab, partition="spare")
    before, node = lab.sandbox.trees(), lab.sandbox.processes("rl")["b"]["node"]
    # Nothing of the experiment runs on the login node.
    assert lab.sandbox.engines() == lab.sandbox.servers() == []
    lab.slurm.end_node(node)
    try:
        assert {status["state"] for status in lab.sandbox.processes("rl").values()} == {"running"}
    finally:
        lab.slurm.start_node(node)
    assert lab.sandbox.trees() == before
    wait_for(lambda: "down" not in lab.ask("sinfo", "-h", "-n", node, "-o", "%t"), 40, "the node is back")
    assert "running" in lab.sandbox.symphony("ls").out
    lab.sandbox.write(TWO.replace('"exec sleep 1000"', '"echo again; exec sleep 1000"'))
    lab.sandbox.symphony("up", "rl", "-y", timeout=60)
    assert [line["text"] for line in lab.lines() if not line["ended"]] == ["again", "again"]
    assert lab.jobs() == [job]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], check=True, timeout=10)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True, timeout=10)


def test_processes_survive_a_full_shared_disk_and_states_catch_up(lab: Lab, small_disk: Path) -> None:
    lab.sandbox.config("rl", sharedFolder=str(small_disk))
    lab.sandbox.write(TWO.replace('"exec sleep 1000"', '"while ! test -e end; do sleep 0.2; done; exit 3"'))
    lab.sandbox.symphony("up", "rl", "-y", timeout=120)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(b"x" * 4096)
            except OSError:
                break
    # trees() sees a loop only while its short `sleep` runs, which has the marker: look without a pause.
    wait_for(lambda: len(lab.sandbox.trees()) == 2, 20, "both run on", pause=0)
    (lab.sandbox.folder / "end").touch()
    wait_for(lambda: not lab.sandbox.trees(), 20, "both have ended")
    filler.unlink()
    assert lab.becomes("a", "failed")["why"].startswith("exit 3")
    lab.becomes("b", "failed")
    lab.sandbox.symphony("delete", "rl", "-y", timeout=60)
    assert [*small_disk.iterdir()] == []


def test_a_shared_disk_that_is_seen_two_seconds_late_changes_nothing(lab: Lab, tmp_path: Path) -> None:
    late = tmp_path / "late"
    (late / "shared").mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("late.py"), late / "sitecustomize.py")
    lab.sandbox.environment["PYTHONPATH"] = str(late)
    program = """
with Experiment() as e:
    prepare = e.new_process("prepare", "echo prepared")
    e.new_process("server", "exec python3 -m http.server $SYMPH_WEB_PORT", binds="web")
    client = e.new_process("client", "echo $SYMPH_WEB_ADDR; exec sleep 1000", connects="web")
    client.depends_on(prepare, condition="completed")
"""
    job = up(lab, program, sharedFolder=str(late / "shared"))
    lab.becomes("client", "running")
    before = lab.sandbox.trees()
    lab.sandbox.write(program.replace("exec sleep 1000", "exec sleep 1001"))
    lab.sandbox.symphony("up", "rl", "-y", timeout=120)
    lab.becomes("client", "running")
    assert lab.jobs() == [job]
    assert lab.sandbox.trees()["rl/server"] == before["rl/server"]
    assert lab.sandbox.trees()["rl/client"] != before["rl/client"]
    lab.sandbox.symphony("restart", "rl", "server", "-y", timeout=60)
    assert lab.becomes("server", "running")["ready"]
    lab.sandbox.symphony("delete", "rl", "-y", timeout=60)
    assert lab.sandbox.trees() == {}
    assert [*(late / "shared").iterdir()] == []


def test_doctor_reports_if_nodes_can_write_to_the_shared_folder(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(lab.sandbox.environment, "SLURM_CONF", str(lab.slurm.configuration))
    rows = lab.sandbox.symphony("doctor").out.splitlines()
    for name in ("munge", "shared folder"):
        assert [" ok " in row for row in rows if row.startswith(f"{name} (optional)")] == [True]
    assert not [*lab.sandbox.home.parent.rglob("*doctor*")]
