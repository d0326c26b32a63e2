"""Experiments in several partitions: one heterogeneous job with a component a partition."""

from __future__ import annotations

import time
from typing import Any

import psutil
import pytest

from tests.backends.slurm.conftest import Lab
from tests.sandbox import wait_for
from toolchain.slurm.cluster import NODES

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
# The partition gpu has the node n1, with GPUs, and cpu has n2 to n4.
PROGRAM = """
from symphony import Place
with Experiment() as e:
    show = "echo gpus $CUDA_VISIBLE_DEVICES; exec python3 -m http.server $SYMPH_WEB_PORT"
    # The variables of the batch step on the first node must not reach another node.
    hide = "echo other ${CUDA_VISIBLE_DEVICES-none} ${ENVIRONMENT-none};"
    e.new_process("learner", show, binds=["web"], place=Place(gpu=1, partition="LEARNER"))
    actor = "echo $SYMPH_WEB_ADDR; exec sleep SECONDS"
    e.new_process("one", actor, connects=["web"], place=Place(partition="cpu"))
    e.new_process("two", hide + "exec sleep 1000", connects=["web"], place=Place(partition="TWO"))
"""


def program(learner: str = "gpu", two: str = "cpu", seconds: int = 1000) -> str:
    text = PROGRAM.replace("LEARNER", learner).replace("TWO", two)
    return text.replace("SECONDS", str(seconds))


def up(lab: Lab, text: str = "", **more: Any) -> str:
    lab.sandbox.write(text or program())
    return lab.sandbox.symphony("up", "rl", "-y", timeout=120, **more).out


def nodes(lab: Lab) -> dict[str, str]:
    return {path: status["node"] for path, status in lab.sandbox.processes("rl").items()}


def partitions(lab: Lab) -> list[str]:
    """Return the partition of each component of the job."""
    jobs = lab.jobs()
    lines = lab.ask("squeue", "-h", "-o", "%i|%P").splitlines()
    found = dict(line.split("|") for line in lines)
    return [found[job] for job in sorted(jobs)]


def test_processes_run_in_the_component_of_their_partition_and_edits_restart_their_steps(lab: Lab) -> None:
    lab.sandbox.write(program())
    plan = lab.sandbox.symphony("plan", "rl").out
    assert "component 1 asks for 2 nodes with 1 cpu each (partition cpu)" in plan
    assert "component 0 asks for 1 node with 1 cpu, 1 GPU (partition gpu)" in plan
    up(lab)
    assert partitions(lab) == ["gpu", "cpu"]
    where = nodes(lab)
    assert where["learner"] == "n1"
    assert {where["one"], where["two"]} == {"n2", "n3"}
    web = lab.addresses()["web"]
    assert (web["node"], web["host"]) == ("n1", NODES["n1"])
    address = f"{web['host']}:{web['port']}"
    assert lab.sandbox.symphony("logs", "rl", "one").out.strip() == address
    assert "gpus 0" in lab.sandbox.symphony("logs", "rl", "learner").out.splitlines()
    assert lab.sandbox.symphony("logs", "rl", "two").out.strip() == "other none none"
    call = f"import os, urllib.request as u; print(os.environ['SLURMD_NODENAME'], u.urlopen('http://{address}').status)"
    for path in ("one", "learner"):
        out = lab.sandbox.symphony("exec", "rl", path, "--", "python3", "-c", call).out
        assert out == f"{where[path]} 200\n"

    # An edit or a change of component restarts its step in the same job.
    jobs, before = lab.jobs(), lab.sandbox.trees()
    up(lab, program(seconds=1001))
    after = lab.sandbox.trees()
    assert {path for path in after if after[path] != before[path]} == {"rl/one"}
    out = up(lab, program(two="gpu", seconds=1001))
    assert "cpu -> gpu" in out
    moved = lab.sandbox.trees()
    assert {path for path in moved if moved[path] != after[path]} == {"rl/two"}
    assert nodes(lab)["two"] == "n1"
    lab.sandbox.symphony("restart", "rl", "learner", "-y", timeout=60)
    assert lab.jobs() == jobs
    assert nodes(lab)["learner"] == "n1"

    # A removed process ends alone.
    restarted = lab.sandbox.trees()
    up(lab, "\n".join(line for line in program(seconds=1001).splitlines() if '"two"' not in line))
    assert lab.sandbox.trees() == {path: tree for path, tree in restarted.items() if path != "rl/two"}
    time.sleep(3)
    assert lab.jobs() == jobs
    assert set(nodes(lab)) == {"learner", "one"}


def test_another_component_needs_a_new_allocation_and_one_partition_an_ordinary_job(lab: Lab) -> None:
    up(lab)
    before = lab.jobs()
    lab.sandbox.write(program(two="spare"))
    plan = lab.sandbox.symphony("plan", "rl").out
    assert "needs a new allocation" in plan
    assert "component 2 asks for 1 node with 1 cpu (partition spare)" in plan
    assert lab.jobs() == before
    up(lab, program(two="spare"))
    assert partitions(lab) == ["gpu", "cpu", "spare"]
    up(lab, program(learner="cpu").replace("gpu=1, ", ""))
    (job,) = lab.jobs()
    assert job.isdecimal()
    assert {status["state"] for status in lab.sandbox.processes("rl").values()} == {"running"}


def test_components_that_need_more_nodes_than_their_partitions_have_are_a_problem(lab: Lab) -> None:
    """Slurm looks at each component alone, and would keep the job in its queue for ever."""
    text = 'e.new_process("PATH", "sleep 1000", place=Place(partition="main"))'
    others = "\n    ".join(text.replace("PATH", f"p{number}") for number in range(4))
    lab.sandbox.config("rl", nodes="4")
    lab.sandbox.write(f"{program()}    {others}")
    ran = lab.sandbox.symphony("plan", "rl", code=2)
    assert "the job asks for 5 nodes" in ran.err
    assert "which have 4" in ran.err


def test_unknown_partitions_and_split_groups_are_problems_at_their_lines(lab: Lab) -> None:
    lab.sandbox.write(program(two="gpus"))
    ran = lab.sandbox.symphony("plan", "rl", code=2)
    (line,) = (line for line in (ran.out + ran.err).splitlines() if '"gpus"' in line)
    assert "two is placed in" in line
    assert "line 11" in line
    assert 'did you mean "gpu"' in line
    lab.sandbox.write(
        """
with Experiment() as e:
    g = e.new_process_group("g")
    for name in ("cpu", "gpu"):
        g.new_process(name, "sleep 1").place(partition=name)
"""
    )
    ran = lab.sandbox.symphony("plan", "rl", code=2)
    (line,) = (line for line in (ran.out + ran.err).splitlines() if "cpu and gpu" in line)
    assert "the group g" in line
    assert "line 6" in line


def test_a_cancelled_component_ends_the_job_and_up_submits_another(lab: Lab) -> None:
    """Slurm lets the other components run, in which half of an experiment would be left."""
    up(lab)
    first, second = sorted(lab.jobs())
    lab.ask("scancel", second)
    assert f"component {second} (partition cpu) is CANCELLED" in lab.becomes("learner", "lost")["why"]
    wait_for(lambda: not lab.jobs(), 20, "the job has ended")
    assert lab.sandbox.trees() == {}
    up(lab)
    assert not {first, second} & {*lab.jobs()}
    assert {status["state"] for status in lab.sandbox.processes("rl").values()} == {"running"}


def test_the_successor_of_a_killed_supervisor_adopts_the_steps_of_all_components(lab: Lab) -> None:
    up(lab)
    jobs, before, supervisor = lab.jobs(), lab.sandbox.trees(), lab.supervisor()
    supervisor.kill()
    # The process ends while no supervisor runs.
    for pid in before["rl/learner"]:
        psutil.Process(pid).kill()
    assert "SIGKILL" in lab.becomes("learner", "failed")["why"]
    assert lab.jobs() == jobs
    up(lab)
    after = lab.sandbox.trees()
    assert after["rl/one"] == before["rl/one"]
    assert nodes(lab)["learner"] == "n1"
    assert lab.jobs() == jobs
