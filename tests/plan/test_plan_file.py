"""Where a program puts its plan: small, and gone afterwards, also when who asked for it was killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from symphony.plan import plan_file
from symphony.plan.build import build_plan
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.process import ProcessSpec
from symphony.spec.services import ServiceUse

ASKS = """
import time
from symphony.plan.plan_file import plan_file
with plan_file() as box:
    box.file.write_text("secret")
    print(box.file, flush=True)
    time.sleep(60)
"""


def asking() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", ASKS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_variables_of_all_services_are_handed_over_once_and_read_in_every_process(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = [ProcessSpec(f"p{n}", command=("x",), binds=(ServiceUse(f"s{n}"),)) for n in range(50)]
    ports = {f"s{n}": 7000 + n for n in range(50)}
    target = Target("tmux", "rl", "command", frozenset(), True, "127.0.0.1", "127.0.0.1", ports)
    plan = build_plan(ExperimentSpec("rl", processes=tuple(processes)), target)
    with plan_file.plan_file({"uid-1"}) as box:
        for name, value in box.environment.items():
            monkeypatch.setenv(name, value)
        plan_file.write_plan(plan, {}, {})
        assert plan_file.recorded() == {"uid-1"}
        assert box.file.read_text().count('"SYMPH_S7_ADDR"') == 1
        taken = box.take()
    assert taken is not None
    assert taken.plan == json.loads(plan.to_json())
    output = taken.plan["processes"][3]["service_env"]
    assert (output["SYMPH_S7_ADDR"], output["SYMPH_S3_BIND"], len(output)) == (
        "127.0.0.1:7007",
        "127.0.0.1",
        151,
    )


def test_gone_afterwards(own_home: Path) -> None:
    with plan_file.plan_file() as box:
        box.file.write_text("{}")
    assert list(own_home.glob("plan-*")) == []


def test_what_a_killed_command_left_is_swept_and_a_live_ones_stays(own_home: Path) -> None:
    killed, left = asking()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert left.read_text() == "secret"
    living, used = asking()
    try:
        assert not left.parent.exists()
        with plan_file.plan_file():
            assert used.read_text() == "secret"
    finally:
        living.kill()
        living.wait()
