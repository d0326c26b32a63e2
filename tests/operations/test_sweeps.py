"""`symphony sweep`: trials of a grid, frozen code, more trials later, killed sweeps, deletion, retries."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from symphony.backends.observe import ProcessStatus, State
from symphony.engine import workspace
from symphony.errors import UserError
from symphony.operations import sweep, sweep_run
from symphony.operations.process import TIMED_OUT
from symphony.operations.sweep_run import Runner
from tests.sandbox import Sandbox, wait_for
from tests.terminal import terminal

PROGRAM = """
import symphony
params = symphony.params(lr=0.1, seed=1)
with Experiment() as e:
    e.new_process("train", command=["sh", "train.sh", str(params.lr), str(params.seed)])
"""
SCRIPT = """echo "$1 $2" >>{log}
test "$2" = 13 && test ! -e {log}.well && exit 3
sleep {seconds}
printf '::result {{"loss": %s}}\\n' "$1"
echo "$1 $2" >>{log}.ended
"""


def _write(sandbox: Sandbox, seconds: float = 0.2) -> Path:
    log = sandbox.home.parent / "log"
    sandbox.write(PROGRAM)
    (sandbox.folder / "train.sh").write_text(SCRIPT.format(log=log, seconds=seconds))
    return log


def _runner(sandbox: Sandbox, name: str) -> psutil.Process | None:
    for process in psutil.process_iter(["cmdline", "environ"]):
        words = process.info["cmdline"] or []
        home = (process.info["environ"] or {}).get("SYMPHONY_HOME")
        if words[1:3] == ["-m", "symphony.cli.sweep_runner"] and name in words and home == str(sandbox.home):
            return process
    return None


def _counts(file: Path) -> dict[str, int]:
    lines = file.read_text().splitlines() if file.exists() else []
    return {line: lines.count(line) for line in lines}


def test_grid_words_expand_to_trials(tmp_path: Path) -> None:
    grid = sweep.trials_of(["lr=0.1,0.3", "seed=1..3"], "g")
    assert len(grid) == 6
    assert grid[0] == {"lr": "0.1", "seed": "1"}
    drawn = sweep.trials_of(["lr=log(1e-4,1e-1)*20", "seed=1,2"], "g")
    assert len(drawn) == 40
    assert all(1e-4 <= float(row["lr"]) <= 1e-1 for row in drawn)
    assert drawn == sweep.trials_of(["lr=log(1e-4,1e-1)*20", "seed=1,2"], "g")
    (tmp_path / "t.csv").write_text("lr,seed\n0.1,1\n0.2,2\n")
    assert sweep.trials_of([f"@{tmp_path / 't.csv'}"], "g") == [
        {"lr": "0.1", "seed": "1"},
        {"lr": "0.2", "seed": "2"},
    ]
    # As a spreadsheet writes it, and as a person does.
    (tmp_path / "t.csv").write_text("\ufefflr, seed\n0.1, 1\n")
    assert sweep.trials_of([f"@{tmp_path / 't.csv'}"], "g") == [{"lr": "0.1", "seed": "1"}]
    for wrong in (
        ["lr"],
        ["lr="],
        ["lr=1,,2"],
        ["lr=log(0,1)*3"],
        ["lr=log(1,2)"],
        ["lr=1", "lr=2"],
        ["@/no.csv"],
        ["x=1..20000"],
    ):
        with pytest.raises(UserError) as error:
            sweep.trials_of(wrong, "g")
        assert "Errno" not in str(error.value)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_sweep_runs_frozen_code_can_be_extended_and_deleted(sandbox: Sandbox) -> None:
    log = _write(sandbox)
    told = sandbox.home.parent / "told"
    (sandbox.folder / "tell.sh").write_text(f'echo "$NAME $STATE $EXIT" >>{told}\n')
    sandbox.config("train", notify="sh tell.sh")
    words = ["sweep", "train", "--name", "grid", "--at-most", "2"]
    for sure in ("-y", "--dry-run"):
        assert "lrr" in sandbox.symphony(*words, "lrr=1", sure, code=2).err
    assert "2 trials" in sandbox.symphony(*words, "lr=0.1,0.3", "--dry-run").out
    assert sandbox.symphony("ls").out.startswith("No experiments")
    sandbox.symphony(*words, "lr=0.1,0.3", "-y", timeout=120)
    # The edit comes after the code was frozen.
    (sandbox.folder / "train.sh").write_text("exit 1\n")
    sandbox.symphony("wait", "grid", timeout=180)
    rows = sandbox.symphony("results", "grid", "--min", "loss", "--json").json
    assert [(row["trial"], row["lr"], row["loss"]) for row in rows] == [("1", "0.1", 0.1), ("2", "0.3", 0.3)]
    (row,) = sandbox.symphony("ls", "--json").json
    assert (row["name"], row["ready"], row["total"], row["state"]) == ("grid", 2, 2, "2/2 done")
    sandbox.symphony(*words, "lr=0.1,0.3", "seed=1,13", "-y", timeout=120)
    assert "4/6 done, 2 failed" in sandbox.symphony("wait", "grid", code=1, timeout=180).out
    assert _counts(log)["0.1 1"] == 2
    assert told.read_text().splitlines() == ["grid completed 0", "grid failed 1"]
    log.with_name("log.well").touch()
    assert "2 to run, 2 at a time" in sandbox.symphony("sweep", "grid", "--retry", "--dry-run").out
    sandbox.symphony("sweep", "grid", "--retry", "-y", timeout=120)
    sandbox.symphony("wait", "grid", timeout=180)
    ended = _counts(log.with_name("log.ended"))
    assert ended["0.1 13"] == ended["0.3 13"] == 1
    # The sweep notifies of its own end, not of those of its trials.
    assert told.read_text().splitlines()[2:] == ["grid completed 0"]
    assert "is a sweep" in sandbox.symphony("up", "grid", "-y", code=2).err
    assert "needs parameters" in sandbox.symphony("sweep", "grid", "--name", "other", code=2).err
    # Without a name, the command selects the stack of the program, not its sweep.
    assert sandbox.symphony("plan", "--json").json["stack"] == "sandbox"
    for _ in range(2):
        deleted = sandbox.symphony("delete", "grid", "-y").out
        assert "stopped 0 processes" in deleted
        assert "runs kept" in deleted
    assert "0.1" in sandbox.symphony("results", "grid", "--csv", "-").out
    assert "Would delete 1 experiment" in sandbox.symphony("delete-batch", "g*", "--forget", "--dry-run").out
    sandbox.symphony("delete-batch", "g*", "--forget", "-y")
    assert not [*sandbox.home.glob("runs/*/*/*")]
    assert not [*sandbox.home.glob("sweeps/*/*/*")]
    assert "grid" not in sandbox.symphony("ls").out
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_a_hanging_trial_fails_after_stop_after(sandbox: Sandbox) -> None:
    _write(sandbox, seconds=600)
    # A stack need not be named if the project has one program.
    sandbox.symphony("sweep", "lr=1", "--name", "slow", "--stop-after", "2s", "-y", timeout=120)
    assert "1 failed" in sandbox.symphony("wait", "slow", code=1, timeout=120).out
    sandbox.symphony("drift", "slow")
    sandbox.symphony("delete", "slow", "-y")
    # Its run tells why it ended, not that it was deleted.
    assert "time limit" in sandbox.symphony("history", "slow.1").out
    # Settings of trials are not written into the project.
    assert [file.name for file in sandbox.folder.glob("Pulumi.*")] == ["Pulumi.yaml"]


def test_the_time_of_a_trial_in_a_queue_does_not_count_for_stop_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = sweep.Sweep("grid", "lab", "train", stop_after=20)
    runner, reasons = Runner(grid.full_name, print), list[str]()
    trial = sweep.Trial(1, {}, state="running", started=time.time() - 100)
    states: list[State] = ["waiting", "running", "running"]
    monkeypatch.setattr(sweep_run.stacks, "read", lambda name: SimpleNamespace(name=name, recorded=True))
    monkeypatch.setattr(
        sweep_run, "wait", lambda *_, **__: ([ProcessStatus("a", states.pop(0), ready=True)], TIMED_OUT)
    )
    monkeypatch.setattr(runner, "_change", lambda trial, began: setattr(trial, "began", began))
    monkeypatch.setattr(runner, "_record_end", lambda _grid, _trial, _state, why: reasons.append(why))
    runner._look(grid, trial)
    runner._look(grid, trial)
    assert reasons == []
    trial.began -= 100
    runner._look(grid, trial)
    assert "time limit" in reasons[0]


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_each_trial_runs_once_although_the_sweep_is_killed(sandbox: Sandbox) -> None:
    log, source = _write(sandbox, seconds=1), random.Random(1)
    words = ["sweep", "train", "seed=101..106", "--name", "grid", "--at-most", "4", "-y"]
    sandbox.symphony(*words, timeout=120)
    for _ in range(3):
        time.sleep(source.uniform(0, 10))
        if (runner := _runner(sandbox, "grid")) is None:
            # The supervisor pauses before it starts the runner again, or the sweep has ended.
            sandbox.symphony(*words, timeout=120)
            runner = wait_for(lambda: _runner(sandbox, "grid"), 60, "the sweep runs again")
        os.kill(runner.pid, signal.SIGKILL)
    sandbox.symphony(*words, timeout=120)
    sandbox.symphony("wait", "grid", timeout=400)
    assert _counts(log.with_name("log.ended")) == {f"0.1 {seed}": 1 for seed in range(101, 107)}
    sandbox.symphony("delete", "grid", "-y")


def _project(folder: Path) -> Path:
    (folder / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    return folder


def test_secret_files_are_links_in_frozen_code(tmp_path: Path) -> None:
    place = workspace.load(_project(tmp_path) / "Pulumi.yaml")
    (tmp_path / "key.txt").write_text("hush")
    grid = sweep.prepare(place, "train", "grid", [{"lr": "1"}])
    sweep.freeze(grid, place)
    assert not (grid.code / "key.txt").is_symlink()
    sweep.link_secrets(grid, place, [str(grid.code.resolve() / "key.txt")])
    assert (grid.code / "key.txt").readlink() == tmp_path / "key.txt"


def test_a_sweep_that_has_not_begun_copies_the_code_again(tmp_path: Path) -> None:
    """A command that was killed at its question leaves a copy of older code."""
    place = workspace.load(_project(tmp_path) / "Pulumi.yaml")
    for code in ("first", "second"):
        (tmp_path / "train.py").write_text(code)
        grid = sweep.prepare(place, "train", "grid", [{"lr": "1"}])
        sweep.freeze(grid, place)
        assert (grid.code / "train.py").read_text() == code
    sweep.begin(grid, retry=False)
    (tmp_path / "train.py").write_text("third")
    sweep.freeze(grid, place)
    assert (grid.code / "train.py").read_text() == "second"


def test_a_sweep_of_another_stack_keeps_its_name(tmp_path: Path) -> None:
    """Its trials ran with the settings of the other stack."""
    place = workspace.load(_project(tmp_path) / "Pulumi.yaml")
    grid = sweep.prepare(place, "train", "grid", [{"lr": "1"}])
    sweep.freeze(grid, place)
    sweep.begin(grid, retry=False)
    with pytest.raises(UserError, match="is of the stack train, not of other"):
        sweep.prepare(place, "other", "grid", [{"lr": "2"}])


def test_a_terminal_closed_at_the_question_leaves_nothing(sandbox: Sandbox) -> None:
    _write(sandbox)
    command = [str(sandbox.program), "sweep", "train", "lr=1", "--name", "grid"]
    with terminal(sandbox, command) as shown:
        shown.shows("Proceed?", 100)
        assert [*sandbox.home.glob("sweeps/*/*/grid")]
    wait_for(lambda: not [*sandbox.home.glob("sweeps/*/*/grid")], 20, "the copy is removed")
    assert sandbox.symphony("ls").out.startswith("No experiments")


def test_the_stacks_of_ended_trials_are_deleted_before_more_trials_start() -> None:
    states = ("completed", "waiting", "running", "failed", "starting", "waiting")
    trials = [sweep.Trial(number, {}, state=state) for number, state in enumerate(states)]
    assert [trial.number for trial in sweep_run._by_urgency(trials)] == [2, 4, 0, 3, 1, 5]


def test_an_up_that_prints_much_ends_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output of an `up` is more than a pipe holds, and the runner reads it only at the end."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nhead -c 300000 /dev/zero >&2\necho >&2\necho symphony: boom >&2\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    grid = sweep.Sweep("grid", "lab", "train", trials=[sweep.Trial(1, {"lr": "1"})])
    grid.code.mkdir(parents=True)
    runner, (trial,), reasons = Runner(grid.full_name, print), grid.trials, list[str]()
    monkeypatch.setattr(runner, "_record_end", lambda _grid, _trial, _state, why: reasons.append(why))
    runner._spawn(grid, trial, "up")
    process, _ = runner._jobs[1]
    assert process.wait(20) == 2
    runner._record_up(grid, trial, runner._jobs[1])
    assert reasons == ["boom"]
