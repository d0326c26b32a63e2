"""The log and `why` name failed lines of cmds; the next lines run as in any shell."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from symphony_tmux import names
from symphony_tmux.processes import launch_file
from symphony_tmux.processes.environment import Caller
from symphony_tmux.resource.inputs import window_inputs

Runs = Callable[..., tuple[str, list[str]]]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Return a function that runs cmds; it returns stdout, then stderr, and the recorded failed lines."""
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path / "it's home"))
    (tmp_path / "services.sh").touch()
    folder = names.process_folder("default", "s", "a")
    folder.mkdir(parents=True)

    def run(*lines: str, **more: Any) -> tuple[str, list[str]]:
        props = {"session": "s", "owner": "p/s#1", "path": "a", "cwd": "/", "preamble": ["true"]}
        inputs = window_inputs({**props, "script": [*lines], **more})
        file = folder / "launch.sh"
        caller = Caller({b"PATH": b"/usr/bin:/bin"})
        file.write_bytes(launch_file.content(inputs, "p/s#1/a/1", caller, [tmp_path / "services.sh"], folder))
        done = subprocess.run([launch_file.bash(), str(file)], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr.replace(f"{file}: ", ""), launch_file.failed_lines(folder)

    return run


def test_a_failed_line_is_reported_and_the_next_ones_run(runs: Runs) -> None:
    printed, kept = runs("true", "cd nowhere 2>/dev/null", "echo next $?", "exit 3")
    assert printed.splitlines() == [
        "next 1",
        "[symphony: line 2 failed with exit 1: cd nowhere 2> /dev/null]",
    ]
    assert kept == ["line 2 failed with exit 1: cd nowhere 2> /dev/null"]


@pytest.mark.parametrize(
    ("lines", "failed"),
    [
        (
            ["if true; then\n  false\nfi", "true | sh -c 'exit 4'"],
            ["line 2 failed with exit 1: false", "line 4 failed with exit 4: sh -c 'exit 4'"],
        ),
        (["for i in 1 2 3; do false; done"], ["line 1 failed with exit 1: false"]),
        (["if false; then :; fi", "false || true", "! true", "while false; do :; done"], []),
        (["source MINE", "f() { false; return 7; }", "f"], ["line 3 failed with exit 7: return 7"]),
        (["set -eu", "false", "echo not here"], ["line 2 failed with exit 1: false"]),
    ],
    ids=["several lines", "loop", "conditions", "sourced files and functions", "set -eu"],
)
def test_which_line_of_the_user_failed(
    runs: Runs, tmp_path: Path, lines: list[str], failed: list[str]
) -> None:
    (tmp_path / "mine.sh").write_text("false\nfalse\ntrue\n")
    printed, kept = runs(*(line.replace("MINE", str(tmp_path / "mine.sh")) for line in lines))
    assert kept == failed
    assert printed.count(" failed with ") == len(failed)
    assert "not here" not in printed


def test_a_failed_preamble_line_ends_the_process(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "mine.sh").write_text("false\ntrue\n")
    goes_on = [
        f"source {tmp_path / 'mine.sh'}",
        "[ -e /nowhere ] && false",
        "false || true",
        "if false; then :; fi",
    ]
    assert runs("echo on", preamble=goes_on) == ("on\n", [])
    printed, kept = runs("echo on", preamble=[*goes_on, "activate() { return 4; }", "activate x"])
    assert "on\n" not in printed
    assert len(kept) == 1
    assert kept[0].startswith("preamble_cmds line ")
    assert "exit 4" in kept[0]
    printed, kept = runs(preamble=["true", "(exit 5)"], argv=["echo", "on"])
    assert "preamble_cmds line 2 failed with exit 5" in printed
    assert "on\n" not in printed
    assert runs(preamble=["true"], argv=["echo", "on"])[0] == "on\n"


def test_a_new_start_clears_recorded_failures(runs: Runs) -> None:
    assert runs("false")[1]
    assert runs("true")[1] == []
