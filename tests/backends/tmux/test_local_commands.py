"""Files, folders and commands of a declaration are checked on this machine before anything starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from symphony import Experiment
from symphony.backends import local_commands


def executable(file: Path, mode: int = 0o755) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    return file


def test_unreadable_secret_files_are_reported_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text("x")
    files = [tmp_path / "key", "~/key", tmp_path / "gone", "~no-such-user/key", tmp_path, "a\0b", 5]
    unusable = local_commands.unusable(Experiment("rl", secrets=files).spec, tmp_path)
    assert "~no-such-user/key" in unusable
    assert {path: why for path, why in unusable.items() if not path.startswith("~")} == {
        str(tmp_path / "gone"): "no such file or directory",
        str(tmp_path): "not a regular file",
        "a\0b": "embedded null byte",
        "5": "no such file or directory",
    }
    assert "~/key" not in unusable


def test_missing_start_dirs_are_reported(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    experiment = Experiment("rl", start_dir="there")
    experiment.new_process_group("g", start_dir="gone").new_process("a", start_dir=str(tmp_path / "file"))
    experiment.new_process("c", start_dir="")
    why = "no such folder"
    assert local_commands.unusable(experiment.spec, tmp_path) == {
        "gone": why,
        str(tmp_path / "file"): "it is a file",
    }


NOT_ON_PATH = "no such command on PATH"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"command": "mine"}, ""),
        ({"command": ["mine", "x"]}, ""),
        ({"command": "data"}, NOT_ON_PATH),
        ({"command": "pyhton"}, NOT_ON_PATH),
        ({"command": "sleep", "env": {"PATH": "/opt/bin:$PATH"}}, "which no shell expands"),
        ({"command": "./run.sh"}, ""),
        ({"command": "./data.sh"}, "not an executable file"),
        ({"command": "./gone.sh"}, "no such file"),
        ({"command": "/"}, "not an executable file"),
        ({"command": "./below.sh", "start_dir": "sub"}, ""),
        ({"command": "./below.sh"}, "no such file"),
        # A missing program in `cmds` is only a remark, tested below.
        ({"cmds": ["pyhton a.py"], "command": "pyhton"}, ""),
        # Other rules refuse these.
        ({"command": None}, ""),
        ({"command": ""}, ""),
        ({"command": []}, ""),
        ({"command": ["a\0b"]}, ""),
    ],
)
def test_a_command_that_cannot_start_is_reported_with_the_reason(
    tmp_path: Path, settings: dict[str, Any], why: str
) -> None:
    for name, mode in (("bin/mine", 0o755), ("bin/data", 0o644), ("run.sh", 0o755), ("data.sh", 0o644)):
        executable(tmp_path / name, mode)
    executable(tmp_path / "sub" / "below.sh")
    experiment = Experiment("rl")
    experiment.new_process("a", **settings)
    reasons = local_commands.unstartable(experiment.spec, tmp_path, str(tmp_path / "bin"))
    assert list(reasons) == (["a"] if why else [])
    assert why in reasons.get("a", "")


def test_a_command_that_an_earlier_process_may_make_is_only_a_remark(tmp_path: Path) -> None:
    experiment = Experiment("rl")
    experiment.new_process("build", command="sleep")
    experiment.new_process("built", command="out/server", depends_on={"build": "completed"})
    experiment.new_process("typo", command="pyhton", depends_on={"build": "completed"})
    experiment.new_process("early", command="out/server", depends_on={"build": "started"})
    reasons = local_commands.unstartable(experiment.spec, tmp_path, os.environ["PATH"])
    assert set(reasons) == {"typo", "early"}
    assert [remark.what for remark in remarks_of(experiment, tmp_path)] == [
        "built runs out/server: no such file"
    ]


@pytest.mark.parametrize("owner", ["process", "group", "experiment"])
def test_commands_are_looked_up_in_the_declared_path_unless_a_preamble_may_change_it(tmp_path, owner):
    executable(tmp_path / "bin" / "mine")
    for settings in ({"env": {"PATH": str(tmp_path / "bin")}}, {"preamble_cmds": ["module load x"]}):
        given: dict[str, Any] = {
            each: settings if each == owner else {} for each in ("experiment", "group", "process")
        }
        experiment = Experiment("rl", **given["experiment"])
        group = experiment.new_process_group("g", **given["group"])
        group.new_process("a", command="mine", **given["process"])
        assert local_commands.unstartable(experiment.spec, tmp_path, "/nowhere") == {}


def remarks_of(experiment, tmp_path, notify=()):
    return tuple(local_commands.missing_programs(experiment.spec, tmp_path, os.environ["PATH"], notify))


def test_a_missing_script_is_a_remark(tmp_path):
    (tmp_path / "there.py").touch()
    experiment = Experiment("rl")
    experiment.new_process("a", command="python3", args=["-u", "nosuch.py"])
    experiment.new_process("b", command=["python3", "there.py"])
    experiment.new_process("c", command="python3 -m nosuch.py")
    experiment.new_process("d", command="python3 nosuch.py", preamble_cmds="cd x")
    experiment.new_process("e", cmds=["exec python3 nosuch.py --lr=0.1"])
    experiment.new_process("f", cmds=["cd x", "python3 nosuch.py"])
    experiment.new_process("g", cmds=["cd x && python3 nosuch.py"])
    experiment.new_process("h", command=["bash", "nosuch.sh"])
    experiment.new_process("i", command=["bash", "-c", "nosuch.sh"])
    remarks = remarks_of(experiment, tmp_path)
    told = [remark.what.split(",")[0] for remark in remarks]
    assert told == ["a runs nosuch.py", "e runs nosuch.py", "h runs nosuch.sh"]
    assert remarks[0].where[0].file == __file__


def test_a_missing_program_in_cmds_is_a_remark(tmp_path):
    experiment = Experiment("rl")
    experiment.new_process("a", cmds=["nosuchprogram -x"])
    experiment.new_process("b", cmds=["source env.sh", "nosuchprogram"])
    experiment.new_process("c", cmds=["while true; do nosuchprogram; done"])
    experiment.new_process("d", cmds=["exec sleep 3"])
    experiment.new_process("e", cmds=["sleep 3"], env={"PATH": "/nowhere"})
    experiment.new_process("f", cmds=["echo 3"], env={"PATH": "/nowhere"})
    remarks = remarks_of(experiment, tmp_path)
    assert [remark.what.split(":")[0] for remark in remarks] == ["a runs nosuchprogram", "e runs sleep"]


def test_a_missing_program_of_a_probe_or_notify_is_a_remark(tmp_path):
    experiment = Experiment("rl")
    experiment.new_process("a", command="sleep 3").liveness_probe(exec=["nosuchcheck", "-x"])
    remarks = remarks_of(experiment, tmp_path, ("nosuchmail", "done"))
    told = [remark.what.split(":")[-2] for remark in remarks]
    assert told == ["notify runs nosuchmail", "liveness_probe of a runs nosuchcheck"]
