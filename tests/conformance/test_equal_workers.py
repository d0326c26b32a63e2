"""Equal workers on every backend: they meet by the variables of torch.distributed, and restart together."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.conformance.backend import Backend
from tests.conformance.conftest import BACKENDS
from tests.sandbox import wait_for

pytestmark = pytest.mark.parametrize("backend", BACKENDS, indirect=True, scope="module")
STACK = "equal"
SOURCE = Path(__file__).with_name("all_reduce.py").read_text()
PROGRAM = f"""
source = {SOURCE!r}
with Experiment() as e:
    e.new_process("train", command=["python3", "-u", "-c", source], replicas=4, rendezvous=True)
"""
# They notice nothing when another one ends. One that exits with 0 on SIGTERM has not completed.
GOES_ON = f"""
leave = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); time.sleep(1000)"
source = {SOURCE!r} + leave
with Experiment() as e:
    e.new_process("train", command=["python3", "-u", "-c", source], replicas=3, rendezvous=True,
        restart_policy="OnFailure")
    e.new_process("other", "sleep 1000")
"""


def test_four_equal_workers_compute_an_all_reduce(backend: Backend, stack: str) -> None:
    backend.up(stack, PROGRAM)
    for rank in range(4):
        backend.becomes(stack, f"train-{rank}", "completed", 40)
    # Without the lines that report exits.
    printed = [line for line in backend.lines(stack, "train-*") if not line["ended"]]
    # In tmux they share the GPUs of one machine; elsewhere a worker sees its own GPUs only.
    locals_ = range(4) if backend.name == "tmux" else [0] * 4
    assert sorted(line["text"] for line in printed if line["text"].startswith("rank")) == [
        f"rank {rank} of 4, local {local}: [0.0, 10.0]" for rank, local in enumerate(locals_)
    ]
    assert {line["path"] for line in backend.lines(stack)} == {"train-0"}, "logs without names show rank 0"
    began = time.time()
    backend.sandbox.symphony("restart", stack, "train-1", "-y", timeout=60 * backend.patience)

    def all_completed_again() -> bool:
        statuses = backend.statuses(stack).values()
        return all(status["state"] == "completed" and status["since"] > began - 1 for status in statuses)

    wait_for(
        all_completed_again, 40 * backend.patience, "those that had completed start again too", pause=0.3
    )


@pytest.mark.thorough
def test_all_of_them_restart_and_meet_when_one_fails(backend: Backend, stack: str) -> None:
    backend.up(stack, GOES_ON)
    backend.becomes(stack, "train-2", "running", 40)
    wait_for(lambda: len(_met(backend, stack)) == 3, 40 * backend.patience, "they meet", pause=0.3)
    before = backend.identities(stack)
    backend.kill(stack, "train-1", signal.SIGKILL)

    def all_run_again() -> bool:
        return all(backend.runs_again(stack, f"train-{rank}", before) for rank in range(3))

    wait_for(all_run_again, 60 * backend.patience, "all of them start again", pause=0.3)
    assert not backend.runs_again(stack, "other", before)
    # The log of a pod is gone with it.
    starts = 2 if backend.remembers_starts else 1
    wait_for(
        lambda: _met(backend, stack).count("train-0") == starts, 40 * backend.patience, "they meet", pause=0.3
    )


def _met(backend: Backend, stack: str) -> list[str]:
    """Return the workers that have printed a sum, once for each start."""
    return [line["path"] for line in backend.lines(stack, "train-*") if line["text"].startswith("rank")]
