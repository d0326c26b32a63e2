"""Files, folders and commands of a declaration are checked on this machine before anything starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from symphony import Experiment
from symphony.backends import local_commands


@pytest.fixture
def experiment() -> Experiment:
    return Experiment("rl")


def executable(file: Path, mode: int = 0o755) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    return file


def test_unreadable_secret_files_are_reported_with_the_reason(tmp_path):
    (tmp_path / "key").write_text("x")
    experiment = Experiment("rl", secrets=[tmp_path / "key", tmp_path / "gone", tmp_path, "a\0b", 5])
    assert local_commands.unusable(experiment.spec, tmp_path) == {
        str(tmp_path / "gone"): "no such file or directory",
        str(tmp_path): "not a regular file",
        "a\0b": "embedded null byte",
        "5": "no such file or directory",
    }


def test_a_tilde_in_a_secret_path_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".key").write_text("x")
    assert local_commands.unusable(Experiment("rl", secrets="~/.key").spec, tmp_path) == {}
    assert list(local_commands.unusable(Experiment("rl", secrets="~nobody-here/.key").spec, tmp_path)) == [
        "~nobody-here/.key"
    ]


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


def test_commands_that_are_not_on_path_are_reported(experiment, tmp_path):
    executable(tmp_path / "bin" / "mine")
    executable(tmp_path / "bin" / "data", 0o644)
    for name, command in {"a": "mine", "b": "data", "c": "pyhton", "d": ["mine", "x"]}.items():
        experiment.new_process(name, command=command)
    why = "no such command on PATH"
    assert local_commands.unstartable(experiment.spec, tmp_path, str(tmp_path / "bin")) == {
        "b": why,
        "c": why,
    }


def test_an_unexpanded_variable_in_path_is_reported(experiment, tmp_path):
    experiment.new_process("a", command="sleep", env={"PATH": "/opt/bin:$PATH"})
    assert '$PATH", which no shell expands' in local_commands.unstartable(experiment.spec, tmp_path, "")["a"]


def test_command_files_that_are_missing_or_not_executable_are_reported(experiment, tmp_path):
    executable(tmp_path / "run.sh")
    executable(tmp_path / "data.sh", 0o644)
    for name, command in {"a": "./run.sh", "b": "./data.sh", "c": "./gone.sh", "d": "/"}.items():
        experiment.new_process(name, command=command)
    assert local_commands.unstartable(experiment.spec, tmp_path, "") == {
        "b": "not an executable file",
        "c": "no such file",
        "d": "not an executable file",
    }


def test_a_relative_command_is_resolved_in_start_dir(experiment, tmp_path):
    executable(tmp_path / "sub" / "run.sh")
    group = experiment.new_process_group("g", start_dir="sub")
    group.new_process("a", command="./run.sh")
    group.new_process("b", command="./run.sh", start_dir=".")
    assert list(local_commands.unstartable(experiment.spec, tmp_path, "")) == ["g/b"]


@pytest.mark.parametrize("owner", ["process", "group", "experiment"])
def test_commands_are_looked_up_in_the_declared_path(tmp_path, owner):
    executable(tmp_path / "bin" / "mine")
    env = {"PATH": str(tmp_path / "bin")}
    experiment = Experiment("rl", env=env if owner == "experiment" else {})
    group = experiment.new_process_group("g", env=env if owner == "group" else {})
    group.new_process("a", command="mine", env=env if owner == "process" else {})
    assert local_commands.unstartable(experiment.spec, tmp_path, "/nowhere") == {}


@pytest.mark.parametrize("owner", ["process", "group", "experiment"])
def test_commands_are_not_checked_if_a_preamble_may_change_path(tmp_path, owner):
    preambles = {owner: ["module load x"]}
    experiment = Experiment("rl", preamble_cmds=preambles.get("experiment"))
    group = experiment.new_process_group("g", preamble_cmds=preambles.get("group"))
    group.new_process("a", command="mine", preamble_cmds=preambles.get("process"))
    assert local_commands.unstartable(experiment.spec, tmp_path, "/nowhere") == {}


@pytest.mark.parametrize("command", [None, "", [], ["a\0b"]])
def test_commands_that_other_rules_refuse_are_not_reported_again(experiment, tmp_path, command):
    experiment.new_process("a", command=command)
    assert local_commands.unstartable(experiment.spec, tmp_path, os.defpath) == {}


def test_cmds_are_not_checked_on_path(experiment, tmp_path):
    experiment.new_process("a", ["pyhton a.py"], command="pyhton")
    assert local_commands.unstartable(experiment.spec, tmp_path, "") == {}


def remarks_of(experiment, tmp_path):
    return tuple(local_commands.missing_programs(experiment.spec, tmp_path, os.environ["PATH"]))


def test_a_missing_python_script_is_a_remark(tmp_path):
    (tmp_path / "there.py").touch()
    experiment = Experiment("rl")
    experiment.new_process("a", command="python3", args=["-u", "nosuch.py"])
    experiment.new_process("b", command=["python3", "there.py"])
    experiment.new_process("c", command="python3 -m nosuch.py")
    experiment.new_process("d", command="python3 nosuch.py", preamble_cmds="cd x")
    experiment.new_process("e", cmds=["exec python3 nosuch.py --lr=0.1"])
    experiment.new_process("f", cmds=["cd x", "python3 nosuch.py"])
    experiment.new_process("g", cmds=["cd x && python3 nosuch.py"])
    remarks = remarks_of(experiment, tmp_path)
    assert [remark.what.split(",")[0] for remark in remarks] == ["a runs nosuch.py", "e runs nosuch.py"]
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
