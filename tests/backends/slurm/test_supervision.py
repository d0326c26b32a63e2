"""The end by idle_after, the CPU and memory of steps, and readiness inside a Slurm job."""

from __future__ import annotations

import json
import re
import socket
import sys
import time
from typing import Any

import pytest

from tests.backends.slurm.conftest import Lab
from tests.sandbox import wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]


def up(lab: Lab, program: str, code: int | None = 0) -> str:
    lab.sandbox.write(program)
    ran = lab.sandbox.symphony("up", "rl", "-y", timeout=120, code=code)
    return ran.out + ran.err


IDLE = """
with Experiment(idle_after="16s") as e:
    compute = "while [ ! -e enough ]; do seq 20000 >/dev/null; sleep 0.1; done"
    e.new_process("computes", f"{compute}; exec sleep 1000")
    e.new_process("idles", "trap 'echo told; exit' TERM; sleep 1000 & wait")
"""


def test_idle_after_stops_all_processes_once_none_prints_or_computes(lab: Lab) -> None:
    up(lab, IDLE)
    # The steps must answer the next supervisor, too, how much they compute.
    lab.supervisor().kill()
    time.sleep(24)
    assert {status["state"] for status in lab.sandbox.processes("rl").values()} == {"running"}
    assert lab.lines() == []
    (lab.sandbox.folder / "enough").touch()
    for path in ("computes", "idles"):
        assert "16s (idle_after)" in lab.becomes(path, "stopped", 60)["why"]
    warned, told = [line["text"] for line in lab.lines() if line["path"] == "idles" and line["text"]][:2]
    assert "rl will stop in" in warned
    assert told == "told"
    wait_for(lambda: not lab.jobs(), 20, "the job has ended")


ENDED = """
with Experiment(primary="learner") as e:
    e.new_process("learner", "sleep 2")
    e.new_process("replay", "echo begins; exec sleep 1000")
    e.new_process("agent", "echo begins; exec sleep 1000")
"""


def test_a_restart_in_another_job_starts_no_process_that_stopped_with_the_primary(lab: Lab) -> None:
    notified = lab.sandbox.folder / "notified"
    lab.sandbox.config("rl", notify=f"sh -c 'echo $STATE >>{notified}'")
    up(lab, ENDED)
    wait_for(lambda: not lab.jobs(), 40, "the job has ended")
    lab.sandbox.symphony("restart", "rl", "replay", "-y", code=None)
    wait_for(lambda: not lab.jobs(), 40, "the next job has ended")
    assert sorted(line["path"] for line in lab.lines() if line["text"] == "begins") == ["agent", "replay"]
    assert notified.read_text() == "completed\n"


def test_process_and_top_show_the_cpu_and_memory_of_steps(lab: Lab) -> None:
    busy = "python3 -c 'held = bytearray(200 << 20)\nwhile True: pass'"
    up(
        lab,
        f"""
with Experiment() as e:
    e.new_process("busy", {busy!r})
    e.new_process("idle", "exec sleep 1000")
    e.new_process("done", "exit 0")
""",
    )

    def rows() -> dict[str, Any]:
        view = json.loads(lab.sandbox.symphony("top", "rl", "--once", "--json").out)
        return {row["path"]: row for row in view["processes"]}

    rows_now = wait_for(lambda: (now := rows())["busy"]["cpu"] and now, 40, "the CPU of busy is measured")
    assert rows_now["busy"]["cpu"] > 0.2
    assert rows_now["busy"]["memory"] > 200 << 20
    assert rows_now["idle"]["cpu"] == 0
    assert rows_now["done"]["memory"] is None
    wide = lab.sandbox.symphony("process", "rl", "-o", "wide").out
    assert re.search(r"busy .*\d+% +2\d\d", wide), wide


def test_a_process_is_not_ready_while_only_another_program_listens_on_its_port(lab: Lab) -> None:
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
    serve = "python3 -m http.server $SYMPH_WEB_PORT --bind $SYMPH_WEB_BIND"
    program = f"""
with Experiment() as e:
    web = e.new_process("web", "while [ ! -e go ]; do sleep 0.1; done; {serve} & wait")
    web.binds({{"web": {port}}})
"""
    assert "not listening yet" in up(lab, program)
    with socket.create_server(("", port)):
        time.sleep(4)
        assert not lab.sandbox.processes("rl")["web"]["ready"]
    (lab.sandbox.folder / "go").touch()
    wait_for(lambda: lab.sandbox.processes("rl")["web"]["ready"], 30, "it listens")
    assert lab.sandbox.run([sys.executable, "-c", CONNECTS]).out.strip() == "True True"


CONNECTS = """
from symphony.operations import stacks, top
sampler = top.Sampler(stacks.find("rl"))
sampler.sample()
print(sampler.check(), 0 < sampler.sample().edges[0].seconds < 1)
"""
