"""Runs that are stopped or killed: within five seconds all their processes end, and the next run works."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from symphony.engine import errors, workspace
from symphony.engine.run.events import Note
from symphony.engine.state import file_store, locks
from symphony.engine.workspace import Workspace
from tests.engine.support import Runner, processes_with
from tests.sandbox import wait_for

NAME = file_store.StackName("tiny", "dev")
DRIVER = """
import sys
from pathlib import Path
from symphony.engine import workspace
from symphony.engine.run.run import Run
place = workspace.load(Path(sys.argv[1]) / "Pulumi.yaml")
with Run("up", place, "dev", extra={"TINY": sys.argv[2], "MARK": sys.argv[3]}) as run:
    for event in run:
        pass
print(run.outcome.result, flush=True)
sys.exit(130 if run.outcome.result == "interrupted" else run.outcome.exit_code)
"""

# With these, one Ctrl-C would leave the engine running for up to ten minutes: only a second ends it at once.
PATIENT = """
from symphony.engine.run import run as runs, watchdog
watchdog.SAVE_AFTER, runs.KILL_AFTER = 500.0, 600.0
"""


@pytest.fixture
def run_marker(tmp_path: Path) -> str:
    """Return a text that is in the environment of every process of the run."""
    return f"mark-of-{tmp_path.name}-{os.getpid()}"


@pytest.fixture
def running_up(
    tiny: Workspace, engine: object, tmp_path: Path, run_marker: str, request: pytest.FixtureRequest
) -> Iterator[subprocess.Popen[str]]:
    """Start a command and wait until one resource exists and the provider creates a slow one."""
    workspace.create_stack(tiny, "dev")
    there = tmp_path / "there"
    program = f"fast = Thing('fast'); Thing('slow', sleep=600, mark={str(there)!r}, opts=after(fast))"
    program = "after = lambda r: pulumi.ResourceOptions(depends_on=[r])\n" + program
    process = subprocess.Popen(
        [sys.executable, "-c", getattr(request, "param", "") + DRIVER, str(tiny.folder), program, run_marker],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(there.exists, 30, "the slow thing is being made")
    assert len(processes_with(f"MARK={run_marker}")) >= 3
    yield process
    process.kill()
    for pid in processes_with(f"MARK={run_marker}"):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_stops_a_run_while_a_resource_is_being_created(
    running_up: subprocess.Popen[str], number: signal.Signals, run_marker: str, run: Runner
) -> None:
    running_up.send_signal(number)
    out, _ = running_up.communicate(timeout=60)
    assert (out.strip(), running_up.returncode) == ("interrupted", 130)
    assert processes_with(f"MARK={run_marker}") == []
    again = run("up", program="Thing('fast'); Thing('slow')")
    assert again.outcome.summary.changes == {"same": 2, "create": 1}  # type: ignore[union-attr]


def test_ctrl_c_on_a_terminal_reaches_the_engine_once(
    running_up: subprocess.Popen[str], run_marker: str
) -> None:
    """The terminal signals the whole process group; only the command is in it."""
    os.killpg(running_up.pid, signal.SIGINT)
    running_up.communicate(timeout=20)
    assert running_up.returncode == 130
    assert processes_with(f"MARK={run_marker}") == []
    assert {r.name for r in file_store.read_state(NAME).resources} >= {"fast"}, (
        "what was done is in the state"
    )


@pytest.mark.thorough
@pytest.mark.parametrize("running_up", [PATIENT], indirect=True, ids=["patient"])
def test_a_second_ctrl_c_kills_the_run_at_once(running_up: subprocess.Popen[str], run_marker: str) -> None:
    running_up.send_signal(signal.SIGINT)
    time.sleep(0.3)
    running_up.send_signal(signal.SIGINT)
    running_up.communicate(timeout=60)
    assert processes_with(f"MARK={run_marker}") == []


def test_the_engine_ends_with_a_killed_command_and_the_next_run_waits_for_it(
    running_up: subprocess.Popen[str], run_marker: str, run: Runner
) -> None:
    running_up.kill()
    running_up.communicate(timeout=20)
    assert [lock for lock in locks.read("tiny", "dev") if not locks.is_dead(lock)], "its engine still runs"
    again = run("up", program="Thing('fast'); Thing('slow')")
    assert processes_with(f"MARK={run_marker}") == []
    # Completed resources are in the state.
    assert again.outcome.summary.changes == {"same": 2, "create": 1}  # type: ignore[union-attr]


@pytest.mark.thorough
def test_a_killed_engine_leaves_no_process_and_its_lock_is_removed(
    running_up: subprocess.Popen[str], run_marker: str, run: Runner
) -> None:
    [lock] = locks.read("tiny", "dev")
    assert psutil.Process(lock.pid).name() == "pulumi"
    os.kill(lock.pid, signal.SIGKILL)
    out, _ = running_up.communicate(timeout=20)
    assert out.strip() == "failed"
    assert processes_with(f"MARK={run_marker}") == []
    assert locks.is_dead(locks.read("tiny", "dev")[0])
    again = run("up", program="Thing('fast'); Thing('slow')")
    assert [note.text for note in again.of_type(Note)] == [
        f"removed the lock that {lock.owner()} left on dev: that process has ended"
    ]
    assert again.outcome.result == "succeeded"
    assert locks.read("tiny", "dev") == []


@pytest.mark.thorough
def test_a_killed_provider_fails_the_run(running_up: subprocess.Popen[str], run_marker: str) -> None:
    for pid in processes_with(f"MARK={run_marker}"):
        with suppress(psutil.Error):
            if "symphony_dynamic.host" in psutil.Process(pid).cmdline():
                os.kill(pid, signal.SIGKILL)
    out, _ = running_up.communicate(timeout=20)
    assert out.strip() == "failed"
    assert processes_with(f"MARK={run_marker}") == []


# Without a relay, as where a network namespace is not allowed, the program ends itself.
KILL_THE_RELAY = """
import psutil, time
siblings = psutil.Process().parent().children()
relays = [each for each in siblings if any("socket_relay" in word for word in each.cmdline())]
(relays or [psutil.Process()])[0].kill()
time.sleep(600)
"""


@pytest.mark.parametrize(
    "program", ["import os; os.kill(os.getpid(), 9)", KILL_THE_RELAY], ids=["program", "relay"]
)
def test_a_killed_program_or_relay_ends_the_run(run: Runner, program: str) -> None:
    began = time.monotonic()
    outcome = run("up", program=program).outcome
    assert errors.error_of(outcome).line.startswith("the program of dev was killed. A user or program")
    assert time.monotonic() - began < 30, "Pulumi's own host takes 41 s"


@pytest.mark.thorough
def test_ctrl_c_stops_a_program_that_never_ends(
    run: Runner, tiny: Workspace, run_marker: str, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    program = f"import time, pathlib; pathlib.Path({str(there)!r}).touch(); time.sleep(600)"
    workspace.create_stack(tiny, "dev")
    process = subprocess.Popen([sys.executable, "-c", DRIVER, str(tiny.folder), program, run_marker])
    wait_for(there.exists, 30, "the program runs")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert processes_with(f"MARK={run_marker}") == []


@pytest.mark.thorough
def test_the_engine_does_not_ignore_sigint_in_the_background(tiny: Workspace, run_marker: str) -> None:
    """`symphony up &` ignores SIGINT, with which the engine ends its plugins."""
    workspace.create_stack(tiny, "dev")
    words = [sys.executable, "-c", DRIVER, str(tiny.folder), "Thing('slow', sleep=2)", run_marker]
    driver = subprocess.Popen(["bash", "-c", 'trap "" INT; exec "$@"', "-", *words])
    ignoring: set[bool] = set()
    while driver.poll() is None:
        for pid in processes_with(f"MARK={run_marker}"):
            with contextlib.suppress(OSError, StopIteration):
                if b"/pulumi\0up" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                    ignored = next(line.split()[1] for line in lines if line.startswith("SigIgn:"))
                    ignoring.add(bool(int(ignored, 16) >> (signal.SIGINT - 1) & 1))
        time.sleep(0.05)
    assert driver.returncode == 0
    assert ignoring == {False}


@pytest.mark.thorough
def test_half_written_attribute_files_of_a_killed_engine_are_ignored(run: Runner) -> None:
    assert run("up").outcome.result == "succeeded"
    for verb, content in (("preview", '{"user.cache'), ("up", "")):
        for torn in ("stacks/tiny/dev.json.attrs", "meta.yaml.attrs"):
            (file_store.root() / torn).write_text(content)
        assert run(verb).outcome.result == "succeeded"
