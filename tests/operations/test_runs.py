"""Records of runs: content, retention, secrets, limits, damaged records, `up --run`."""

from __future__ import annotations

import json
import os
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from symphony.backends.observe import LogLine, ProcessStatus
from symphony.cli import diff, history
from symphony.engine import workspace
from symphony.engine.state.file_store import StackName
from symphony.errors import UserError
from symphony.operations import compare, kept_code, rerun, run_logs, runs, stacks
from symphony.operations.git import state as read_git_state
from symphony.operations.selected_stack import SelectedStack, sweeps_folder
from tests.sandbox import Sandbox

NAME = StackName("lab", "rl")
PROGRAM = """
with Experiment() as e:
    e.new_process("a", command=["sh", "-c", "echo one {word}; echo two; sleep 600"], env={{"TOKEN": "hush"}})
"""


def _record(number: int, **more: object) -> None:
    folder = runs.folder_of(NAME) / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"number": number, **more}))


def _folder(sandbox: Sandbox, stack: str = "rl") -> Path:
    (folder,) = sandbox.home.glob(f"runs/*/{sandbox.project}/{stack}")
    return folder


def git(folder: Path, *words: str) -> str:
    user = ["-c", "user.name=ana", "-c", "user.email=ana@lab"]
    done = subprocess.run(["git", *user, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def test_runs_are_recorded_compared_and_kept_with_their_logs(sandbox: Sandbox) -> None:
    (sandbox.folder / ".gitignore").write_text("data\nPulumi.*.yaml\n__pycache__\n")
    (sandbox.folder / "data").mkdir()
    sandbox.write(PROGRAM.format(word="first"))
    git(sandbox.folder, "init")
    git(sandbox.folder, "add", "-A")
    git(sandbox.folder, "commit", "-m", "first")
    sandbox.config("rl", **{"sandbox:lr": "0.1"})
    sandbox.symphony("up", "rl", "-y")
    sandbox.write(PROGRAM.format(word="second"))
    sandbox.config("rl", **{"sandbox:lr": "0.3"})
    sandbox.symphony("up", "rl", "-y")
    # An `up` that changes nothing is not recorded.
    sandbox.symphony("up", "rl", "-y")
    second, first = sandbox.symphony("history", "rl", "--json").json
    assert (first["number"], second["number"]) == (1, 2)
    assert first["git"]["changed"] == []
    assert second["git"]["changed"] == ["__main__.py"]
    assert first["ended"] is not None
    assert second["ended"] is None
    assert second["processes"]["a"]["state"] == "running"
    folder = _folder(sandbox)
    assert b"+    e.new_process" in (folder / "2" / "git.diff").read_bytes()
    assert (folder / "1" / "code" / "data").is_symlink()
    assert "hush" not in (folder / "2" / "plan.json").read_text()
    diff = sandbox.symphony("diff", "rl", "1", "2", "--json").json
    assert diff["code"] == {"__main__.py": "changed"}
    assert diff["settings"] == {"sandbox:lr": ["0.1", "0.3"]}
    assert diff["declaration"][0].startswith("a: command")
    assert sandbox.symphony("diff", "rl", "2", "1", "--json").json["runs"] == [2, 1]
    assert "+    e.new_process" in sandbox.symphony("diff", "rl", "--full").out
    deleted = sandbox.symphony("delete", "rl", "-y").out
    assert "2 runs kept" in deleted
    assert "one first" in sandbox.symphony("logs", "rl", "--run", "1").out
    assert "one second" not in sandbox.symphony("logs", "rl", "--run", "1").out
    assert "one second" in sandbox.symphony("logs", "rl").out
    shown = sandbox.symphony("logs", "rl", "--run", "all", "--grep", "one", "-C", "1").out
    lines = [line.partition("| ")[2] for line in shown.splitlines()]
    assert lines == ["one first", "two", "one second", "two"]
    last = sandbox.symphony("logs", "rl", "--run", "all", "-t", "1").out
    assert sum("ended:" not in line for line in last.splitlines()) == 2
    assert "one" not in last
    assert "run 9" in sandbox.symphony("logs", "rl", "--run", "9", code=2).err
    sandbox.symphony("delete", "rl", "--forget", "-y")
    assert not folder.exists()


def test_secrets_are_not_recorded_in_runs(sandbox: Sandbox) -> None:
    params = 'import pulumi, symphony\nsymphony.params(max_tokens=1, wandb="")\n'
    with (sandbox.folder / "Pulumi.yaml").open("a") as project:
        project.write("main: src/\n")
    (sandbox.folder / "src").mkdir()
    program = PROGRAM.replace("Experiment()", 'Experiment(secret_env={{"W": "wandb.txt"}})')
    sandbox.write(params + program.format(word="x"), file="src/__main__.py")
    (sandbox.folder / "src/wandb.txt").write_text("leaked")
    (sandbox.folder / ".env").write_text("KEY=leaked\n")
    (sandbox.folder / "settings.py").write_text(f"T = 'ghp_{'leaked' * 6}'\n")
    sandbox.pulumi("stack", "init", "rl")
    sandbox.pulumi("config", "set", "--secret", "key", "leaked", "--stack", "rl")
    sandbox.pulumi("config", "set", "--secret", "wandb", "leaked", "--stack", "rl")
    sandbox.pulumi("config", "set", "password", "leaked", "--stack", "rl")
    sandbox.pulumi("config", "set", "max_tokens", "512", "--stack", "rl")
    sandbox.symphony("up", "rl", "-y")
    (run,) = sandbox.symphony("history", "rl", "--json").json
    assert run["secret_settings"] == ["sandbox:key", "sandbox:password", "sandbox:wandb"]
    # `up --run` restores a parameter, whatever its name.
    assert run["settings"] == {"sandbox:max_tokens": "512"}
    assert any("settings.py" in line for line in run["missing"])
    folder = _folder(sandbox)
    for file in folder.rglob("*"):
        if file.is_file() and not file.is_symlink():
            assert b"leaked" not in file.read_bytes(), file


def test_a_record_on_a_full_disk_lists_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object, **__: object) -> list[str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept_code, "keep", full)
    from symphony.operations import stacks

    recording = runs.Recording(stacks.read(NAME), "up", tmp_path, {}, ())
    plan = {"backend": "tmux", "services": [], "secrets": [], "processes": []}
    content = {"plan": plan, "parameters": {}, "declared": {"experiment": {"folder": str(tmp_path)}}}
    assert recording.begin(["a: new"], content) == ""
    assert any("code: No space" in line for line in runs.read(NAME, 1).missing)
    _fill_disk_after(monkeypatch, 2)
    recording = runs.Recording(stacks.read(NAME), "up", tmp_path, {}, ())
    assert recording.begin(["a: new"], content) == ""
    assert any("disk is full" in line for line in runs.read(NAME, 2).missing)
    assert not (runs.folder_of(NAME) / "2" / "plan.json").exists()
    monkeypatch.setattr(runs, "write", full)
    recording = runs.Recording(stacks.read(NAME), "up", tmp_path, {}, ())
    assert "No space" in recording.begin(["a: new"], content)
    assert recording.begin(["a: new"], content) == ""
    assert runs.numbers(NAME) == [1, 2]


def _fill_disk_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """Fail one write with a full disk, after this number of writes."""
    write, written = runs.write, list[int]()

    def limited(name: StackName, run: runs.Run) -> None:
        written.append(1)
        if len(written) == writes + 1:
            raise OSError(28, "No space left on device")
        write(name, run)

    monkeypatch.setattr(runs, "write", limited)


def test_records_of_older_and_newer_versions_and_damaged_ones_are_read() -> None:
    _record(1)
    _record(2, version=99, started="2026-11-25T12:00:00Z", unheard_of=True)
    _record(3)
    (runs.folder_of(NAME) / "3" / "run.json").write_text('{"number": ')
    (runs.folder_of(NAME) / "4").mkdir()
    first, second, third, fourth = runs.every(NAME)
    assert (first.number, second.started.year) == (1, 2026)
    assert "damaged" in third.missing[0]
    assert "no record" in fourth.missing[0]
    assert third.ending == fourth.ending == "unknown"


@pytest.mark.parametrize("numbers", [(), (1,)])
def test_diff_without_two_runs_is_a_user_error(
    monkeypatch: pytest.MonkeyPatch, numbers: tuple[int, ...]
) -> None:
    monkeypatch.setattr(runs, "find", lambda _: NAME)
    for number in numbers:
        _record(number)
    with pytest.raises(UserError):
        diff.command()


def test_prune_removes_the_oldest_runs_over_the_limits() -> None:
    for number in range(1, 26):
        _record(number, settings={"symphony:keepRuns": "7"})
    assert runs.prune(NAME) == list(range(1, 19))
    for number in range(19, 26):
        (runs.folder_of(NAME) / str(number) / "log").write_bytes(os.urandom(100_000))
    _record(25, settings={"symphony:keepRuns": "6", "symphony:keepGigabytes": "0.00025"})
    runs.prune(NAME)
    assert runs.numbers(NAME) == [24, 25]


def test_the_logs_of_a_run_end_where_the_next_kept_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a run without a direct successor lists all runs: with thousands, `results` took minutes."""
    for number in (1, 2, 5):
        _record(number, started=f"2026-01-0{number}T00:00:00Z")
        log = runs.folder_of(NAME) / str(number) / "logs/a/log"
        log.parent.mkdir(parents=True)
        log.touch()
    listings: list[StackName] = []
    numbers = runs.numbers
    monkeypatch.setattr(runs, "numbers", lambda name: listings.append(name) or numbers(name))
    first, second, last = (run_logs.spans(NAME, runs.read(NAME, number))["a"] for number in (1, 2, 5))
    ends = [first[1], second[1]]
    assert ends == [runs.read(NAME, number).started.timestamp() for number in (2, 5)]
    assert last[1] > ends[1]
    assert len(listings) == 2


def test_without_a_name_trials_are_no_experiments_with_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    for stack in ("lab", "grid", "grid.1", "grid.2"):
        runs.folder_of(StackName("lab", stack)).mkdir(parents=True)
    (sweeps_folder("lab") / "grid").mkdir(parents=True)
    with pytest.raises(UserError) as error:
        runs.find(None)
    assert error.value.remedy == "Name one of: grid, lab"
    assert runs.find("grid.2").stack == "grid.2"


def test_a_word_of_logs_is_a_process_of_the_current_experiment_or_else_an_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for project, stack in (("lab", "rl"), ("other", "rl"), ("lab", "grid9")):
        folder = runs.folder_of(StackName(project, stack)) / "1"
        (folder / "logs/learner").mkdir(parents=True)
        (folder / "logs/learner/log").touch()
    monkeypatch.setattr(stacks, "find", lambda _: stacks.Stack(StackName("lab", "rl"), None, None, None))
    found = {word: run_logs.find([word]) for word in ("learn", "other/rl", "grid")}
    assert found == {
        "learn": (StackName("lab", "rl"), ["learn"]),
        "other/rl": (StackName("other", "rl"), []),
        "grid": (StackName("lab", "grid9"), []),
    }


def test_the_last_lines_of_a_run_are_those_of_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of an end does not count."""
    ended = LogLine("a", "ended: exit 0", 3, ended=True)
    lines = [LogLine("a", "one", 1), LogLine("a", "two", 2), ended]
    assert [line.text for line in run_logs._last(lines, 1)] == ["two", ended.text]
    assert [line.text for line in run_logs._last([ended, *lines], 0)] == [ended.text]


def test_a_process_that_restarts_with_another_belongs_to_the_run_that_restarted_both() -> None:
    """Its supervisor restarts it, as it restarts a process that failed."""
    first_start = datetime(2026, 1, 1, 0, 1, tzinfo=UTC).timestamp()
    for number in (1, 2):
        _record(number, started=f"2026-01-01T00:0{number}:00Z")
        log = runs.folder_of(NAME) / str(number) / "logs/a/log"
        log.parent.mkdir(parents=True)
        log.touch()
        log.with_name("index").write_text(f"{first_start} 0 start 1 0\n{first_start + 65} 8 again 1 1\n")
    plan = {"changes": [{"path": "a", "kind": "restart", "why": [], "follows": True}]}
    (runs.folder_of(NAME) / "2" / runs.PLAN).write_text(json.dumps(plan))
    first, last = (run_logs.spans(NAME, runs.read(NAME, number))["a"] for number in (1, 2))
    assert first[1] == last[0] == first_start + 65


def test_settings_that_a_record_does_not_have_are_unknown_and_not_removed() -> None:
    """The record of a plain `pulumi up` names no user."""
    _record(1, user="ana", settings={"rl:lr": "0.1"})
    _record(2)
    before, after = runs.read(NAME, 1), runs.read(NAME, 2)
    different = compare.differences(NAME, before, after)
    assert (different.settings, different.git) == ({}, ())
    assert "settings and git of run 2" in different.unknown
    assert [*compare.unified(NAME, before, after)] == [f"not compared: {part}" for part in different.unknown]


def test_settings_that_the_engine_only_wrote_anew_do_not_differ() -> None:
    """After `-c`, the file has "1" and "2" in place of 1 and 2.0."""
    _record(1, user="ana", settings={"symphony:grace": 1, "symphony:keepGigabytes": 2.0, "rl:fast": True})
    _record(2, user="ana", settings={"symphony:grace": "1", "symphony:keepGigabytes": "2", "rl:fast": "true"})
    assert compare.differences(NAME, runs.read(NAME, 1), runs.read(NAME, 2)).settings == {}


def test_changed_files_are_not_counted_as_processes() -> None:
    changed = ["a: new", "b: new", "config x.yaml changed", "config y.yaml changed"]
    assert history._grouped(changed) == ["2 processes: new", *changed[2:]]  # pyright: ignore[reportPrivateUsage]


def test_older_than_never_selects_a_run_that_is_still_running() -> None:
    _record(1, started="2026-01-01T00:00:00Z", ended="2026-01-02T00:00:00Z")
    _record(2, started="2026-01-02T00:00:00Z")
    assert runs.older(NAME, 3600) == [1]


def test_the_code_copy_of_a_run_shares_unchanged_files_and_links_ignored_data(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (project / "data" / "x.csv").write_text("1")
    (project / ".gitignore").write_text("data\n")
    (project / "out" / "models").mkdir(parents=True)
    (project / "train.py").write_text("1")
    (project / "big.bin").write_bytes(b"x")
    os.truncate(project / "big.bin", kept_code.LARGEST + 1)
    missing = kept_code.keep(project, tmp_path / "1")
    assert "big.bin" in missing[0]
    kept_code.keep(project, tmp_path / "2", tmp_path / "1")
    assert (tmp_path / "1" / "train.py").samefile(tmp_path / "2" / "train.py")
    assert (tmp_path / "2" / "data" / "x.csv").read_text() == "1"
    # Processes may write into empty folders.
    assert (tmp_path / "2" / "out" / "models").is_dir()
    (project / "train.py").write_text("2")
    assert (tmp_path / "2" / "train.py").read_text() == "1"


def test_kept_code_has_the_mode_that_a_file_got_since_an_earlier_run(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "run.sh").touch(mode=0o644)
    kept_code.keep(project, tmp_path / "1")
    (project / "run.sh").chmod(0o755)
    kept_code.keep(project, tmp_path / "2", tmp_path / "1")
    assert os.access(tmp_path / "2" / "run.sh", os.X_OK)


def test_kept_code_shares_no_file_with_the_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "conf").mkdir(parents=True)
    (project / "conf" / "lr").write_text("1")
    (project / ".gitignore").write_text("conf\n")
    kept_code.keep(project, tmp_path / "1")
    (project / ".gitignore").unlink()
    kept_code.keep(project, tmp_path / "2", tmp_path / "1")
    assert not (tmp_path / "2" / "conf" / "lr").samefile(project / "conf" / "lr")


@pytest.mark.parametrize("repository", ["project", "."])
def test_a_repository_around_the_project_that_ignores_it_does_not_make_its_code_data(
    tmp_path: Path, repository: str
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").touch()
    (project / ".gitignore").write_text("data\n")
    (project / "data").touch()
    (tmp_path / ".gitignore").write_text("*\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / repository / ".git").mkdir(exist_ok=True)
    assert kept_code.keep(project, tmp_path / "1") == []
    assert not (tmp_path / "1" / "train.py").is_symlink()
    assert (tmp_path / "1" / "data").is_symlink()


def test_the_trouble_of_a_run_is_the_failed_process_not_one_that_still_runs() -> None:
    replay = ProcessStatus("replay", "running", ready=True)
    eval_, learner = (ProcessStatus(path, "stopped", ready=False) for path in ("eval", "learner"))
    failed = ProcessStatus("learner", "failed", ready=False, why="exit 1")
    assert runs.trouble_of([replay, eval_, failed]) == "learner failed: exit 1"
    assert runs.trouble_of([replay, eval_, learner]) == "eval stopped"
    assert runs.trouble_of([replay]) == ""


def test_a_file_name_that_is_not_utf8_can_be_recorded(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with (project / os.fsdecode(b"\xff.bin")).open("wb") as file:
        file.truncate(kept_code.LARGEST + 1)
    missing = kept_code.keep(project, tmp_path / "1")
    _record(1)
    runs.write(NAME, msgspec.structs.replace(runs.read(NAME, 1), missing=missing))
    assert "?.bin" in runs.read(NAME, 1).missing[0]


def test_code_of_a_too_large_project_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_code, "MOST_FILES", 5)
    project = tmp_path / "project"
    project.mkdir()
    for number in range(10):
        (project / str(number)).touch()
    assert "the code" in kept_code.keep(project, tmp_path / "1")[0]
    assert not (tmp_path / "1").exists()
    with pytest.raises(UserError):
        kept_code.freeze(project, tmp_path / "2" / "code")


def test_a_run_whose_code_is_neither_kept_nor_in_git_is_refused(tmp_path: Path) -> None:
    def error(**more: object) -> str:
        _record(1, folder=str(tmp_path), **more)
        with pytest.raises(UserError) as refused:
            rerun.prepare(SelectedStack(NAME, workspace.load(tmp_path / "Pulumi.yaml")), 1)
        return str(refused.value)

    (tmp_path / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD").strip()
    lost = error(git={"commit": "0" * 40}, missing=["big.bin: large", "the code: more than 20 MB"])
    assert "more than 20 MB; its commit 000000000000 is no longer in" in lost
    assert "it was removed" in error(code="/removed")
    assert "plain `pulumi up`" in error(git={"commit": commit}, missing=[runs.NOT_KNOWN])


@pytest.mark.parametrize(
    ("inner", "config"),
    [("", "diff.noprefix=true"), ("lab", "diff.relative=true"), ("lab", "color.ui=always")],
)
def test_code_that_is_not_kept_is_restored_from_git(tmp_path: Path, inner: str, config: str) -> None:
    project = tmp_path / "repository" / inner
    project.mkdir(parents=True)
    (project / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    for name in ("program", "changed", "binary"):
        (project / name).write_bytes(b"committed\0" if name == "binary" else b"committed\n")
    (project / ".gitignore").write_text("data\n")
    git(tmp_path, "init", str(project / "submodule"))
    git(project / "submodule", "commit", "--allow-empty", "-m", "first")
    git(tmp_path / "repository", "init")
    git(tmp_path / "repository", "config", *config.split("="))
    git(tmp_path / "repository", "add", ".")
    git(tmp_path / "repository", "commit", "-m", "first")
    (project / "changed").write_text("of the run\n")
    (project / "binary").write_bytes(b"of the run\0")
    (project / "data").mkdir()
    (project / "new").write_text("of the run\n")
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "new.pyc").touch()
    (project / "gone").touch()
    (project / "Pulumi.rl.yaml").touch()
    state, diff = read_git_state(project)
    started = runs.now() + timedelta(seconds=1)
    _record(1, folder=str(project), git=msgspec.to_builtins(state), started=started.isoformat())
    (runs.folder_of(NAME) / "1" / runs.DIFF).write_bytes(diff)
    for name in ("program", "changed"):
        (project / name).write_text("later\n")
    (project / "gone").unlink()

    target = SelectedStack(NAME, workspace.load(project / "Pulumi.yaml"))
    restored, differences = rerun.prepare(target, 1)
    code = restored.workspace.folder
    assert (code / "program").read_text() == "committed\n"
    assert (code / "changed").read_text() == "of the run\n"
    assert (code / "binary").read_bytes() == b"of the run\0"
    assert (code / "data").readlink() == project / "data"
    assert (code / "new").readlink() == project / "new"
    assert (code / "submodule").readlink() == project / "submodule"
    assert [words for _, words in differences] == ["gone: changed since the commit of that run, and not kept"]


@pytest.mark.thorough
def test_up_run_starts_an_earlier_run_with_its_code_and_settings(sandbox: Sandbox) -> None:
    sandbox.write(PROGRAM.format(word="first; cat data"))
    sandbox.config("rl", **{"sandbox:lr": "0.1"})
    (sandbox.folder / ".gitignore").write_text("data\n")
    (sandbox.folder / "data").write_text("1")
    sandbox.symphony("up", "rl", "-y")
    sandbox.write(PROGRAM.format(word="second"))
    sandbox.config("rl", **{"sandbox:lr": "0.3"})
    sandbox.symphony("up", "rl", "-y")
    os.utime(sandbox.folder / "data", (time.time() + 60, time.time() + 60))
    back = sandbox.symphony("up", "rl", "--run", "1", "-y").out
    assert back.splitlines()[1].split(": ")[:2] == ["  a", "data"]
    assert "one first" in sandbox.symphony("logs", "rl", "--run", "3").out
    third = sandbox.symphony("history", "rl", "--json").json[0]
    assert third["settings"]["sandbox:lr"] == "0.1"
    assert third["changed"][0] == "run 1 again"
    assert sandbox.symphony("diff", "rl", "1", "3", "--json").json["code"] == {}
    # The project and its settings are unchanged.
    assert "0.3" in (sandbox.folder / "Pulumi.rl.yaml").read_text()
    sandbox.symphony("up", "rl", "-y")
    assert "one second" in sandbox.symphony("logs", "rl", "--run", "4").out
    assert "run 9" in sandbox.symphony("up", "rl", "--run", "9", code=2).err
    # The code of a run does not change.
    assert "--run" in sandbox.symphony("up", "rl", "--run", "1", "--watch", code=2).err


@pytest.mark.thorough
def test_the_next_command_records_a_plain_pulumi_up(sandbox: Sandbox) -> None:
    sandbox.write(PROGRAM.format(word="x"))
    sandbox.pulumi("stack", "init", "rl")
    sandbox.pulumi("up", "--yes", "--stack", "rl")
    (run,) = sandbox.symphony("history", "rl", "--json").json
    assert (run["command"], run["backend"]) == ("pulumi up", "tmux")
    assert run["missing"]
    assert "one x" in sandbox.symphony("logs", "rl", "--run", "1").out
    # It is recorded once, even if another command follows, such as a restart.
    sandbox.symphony("restart", "rl", "a")
    assert [run["command"] for run in sandbox.symphony("history", "rl", "--json").json] == [
        "restart",
        "pulumi up",
    ]
    # Of a running experiment, --forget deletes the runs too.
    sandbox.symphony("delete", "rl", "--forget", "-y")
    assert "no experiment" in sandbox.symphony("history", "rl", code=2).err
