"""What the tmux world refuses or chooses before anything starts, through the real command."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from symphony_tmux.environment import SHELLS_OWN
from tests.desk import Desk, desk_in, wait_for


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path) as made:
        yield made


def test_ports_come_from_the_range_of_the_experiment(desk: Desk) -> None:
    desk.write(
        "with Experiment(port_range=(23450, 23451)) as e:\n"
        '    e.new_process("a", command=["sleep", "3600"]).binds("p", "q", {"fixed": 23460})'
    )
    services = desk.symphony("plan", "rl", "--json").json["plan"]["services"]
    assert {one["name"]: one["port"] for one in services if one["name"] == "fixed"} == {"fixed": 23460}
    assert {one["port"] for one in services if one["name"] != "fixed"} == {23450, 23451}
    desk.write(
        "with Experiment(port_range=(23450, 23451)) as e:\n"
        '    e.new_process("a", command=["sleep", "3600"]).binds("p", "q", "r")'
    )
    said = desk.symphony("up", "rl", "-y", code=2).err
    assert 'a gets no port for "r": no port between 23450 and 23451 is free   line 2' in said
    assert "port_range=(first, last)" in said
    assert desk.trees() == {}


def test_no_variable_is_refused_after_something_started(desk: Desk) -> None:
    names = sorted(SHELLS_OWN)
    desk.write(
        'with Experiment(inherit=["PWD"]) as e:\n'
        '    e.new_process("fine", command=["sleep", "3600"])\n'
        + "\n".join(f'    e.new_process("a{i}", ["true"], env={{{n!r}: 1}})' for i, n in enumerate(names))
    )
    said = desk.symphony("up", "rl", "-y", code=2).err
    assert "the experiment inherits PWD, but the shell sets it itself" in said
    for number, name in enumerate(names):
        assert f"a{number} sets {name}, but the shell sets it itself" in said
    assert said.strip().endswith("Nothing was started.")
    assert desk.trees() == {}


def test_a_command_of_the_programs_own_virtual_environment_is_found(desk: Desk) -> None:
    """Processes get its bin folder first on their PATH, so the plan looks there too."""
    outside: dict[str, str | None] = {"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": None, "CONDA_PREFIX": None}
    desk.write('with Experiment() as e: e.new_process("a", command=["ruff", "--version"])')
    desk.symphony("up", "rl", "-y", env=outside)
    wait_for(lambda: "ruff" in desk.symphony("logs", "rl").out, 10, "it said its version")
    said = desk.symphony("plan", "rl", env={**outside, "VIRTUAL_ENV": "/nowhere"}, code=2).err
    assert 'a cannot start "ruff": no such command on PATH' in said
    desk.symphony("delete", "rl", "-y")


def test_too_many_processes_for_the_limit_of_open_files(desk: Desk) -> None:
    desk.write(
        'with Experiment() as e:\n    for i in range(200): e.new_process(f"a{i}", command=["sleep", "3600"])'
    )
    low = (256, 256)
    said = desk.symphony(
        "up", "rl", "-y", code=2, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, low)
    )
    assert "the tmux server may open 256 files, enough for 112 of these 200 processes   line 2" in said.err
    assert "raise that limit (ulimit -H -n)" in said.err
    assert desk.trees() == {}
