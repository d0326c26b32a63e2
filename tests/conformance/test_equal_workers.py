"""Equal workers on every backend: four compute an all-reduce by the variables of torch.distributed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.backend import Backend
from tests.conformance.conftest import BACKENDS

pytestmark = pytest.mark.parametrize("backend", BACKENDS, indirect=True, scope="module")
STACK = "equal"
PROGRAM = f"""
source = {Path(__file__).with_name("all_reduce.py").read_text()!r}
with Experiment() as e:
    e.new_process("train", command=["python3", "-u", "-c", source], replicas=4, rendezvous=True)
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
