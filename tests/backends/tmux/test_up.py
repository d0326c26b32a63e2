"""`symphony up` in tmux with the real command: ports, refusals, PATH, no perl, window order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from symphony_tmux.processes.environment import SHELLS_OWN
from tests.sandbox import Sandbox, wait_for


@pytest.mark.thorough
def test_ports_come_from_port_range_and_running_out_is_refused(sandbox: Sandbox) -> None:
    sandbox.write(
        "with Experiment(port_range=(23450, 23451)) as e:\n"
        '    e.new_process("a", command=["sleep", "3600"]).binds("p", "q", {"fixed": 23460})'
    )
    services = sandbox.symphony("plan", "rl", "--json").json["plan"]["services"]
    assert {service["name"]: service["port"] for service in services if service["name"] == "fixed"} == {
        "fixed": 23460
    }
    assert {service["port"] for service in services if service["name"] != "fixed"} == {23450, 23451}
    sandbox.write(
        "with Experiment(port_range=(23450, 23451)) as e:\n"
        '    e.new_process("a", command=["sleep", "3600"]).binds("p", "q", "r")'
    )
    output = sandbox.symphony("up", "rl", "-y", code=2).err
    assert 'a gets no port for "r": no port between 23450 and 23451 is free   line 2' in output
    assert "port_range=(first, last)" in output
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_variables_that_the_shell_sets_itself_are_refused_before_anything_starts(sandbox: Sandbox) -> None:
    names = sorted(SHELLS_OWN)
    sandbox.write(
        'with Experiment(inherit=["PWD"]) as e:\n'
        '    e.new_process("fine", command=["sleep", "3600"])\n'
        + "\n".join(f'    e.new_process("a{i}", ["true"], env={{{n!r}: 1}})' for i, n in enumerate(names))
    )
    output = sandbox.symphony("up", "rl", "-y", code=2).err
    assert "the experiment inherits PWD, but the shell sets it itself" in output
    for number, name in enumerate(names):
        assert f"a{number} sets {name}, but the shell sets it itself" in output
    assert output.strip().endswith("Nothing was started.")
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_commands_are_found_in_the_virtual_environment_of_the_program(sandbox: Sandbox) -> None:
    """Its bin folder is first on the PATH of processes, so the plan looks there too."""
    outside: dict[str, str | None] = {"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": None, "CONDA_PREFIX": None}
    sandbox.write('with Experiment() as e: e.new_process("a", command=["ruff", "--version"])')
    sandbox.symphony("up", "rl", "-y", env=outside)
    wait_for(lambda: "ruff" in sandbox.symphony("logs", "rl").out, 10, "it said its version")
    output = sandbox.symphony("plan", "rl", env={**outside, "VIRTUAL_ENV": "/nowhere"}, code=2).err
    assert 'a cannot start "ruff": no such command on PATH' in output
    sandbox.symphony("delete", "rl", "-y")


def without_perl(place: Path) -> dict[str, str | None]:
    """Return the environment of a machine that has everything but perl."""
    folder = place / "bin"
    folder.mkdir()
    for result in ("/bin", "/usr/bin", "/usr/local/bin"):
        for file in Path(result).iterdir():
            if not file.name.startswith("perl") and not (folder / file.name).exists():
                (folder / file.name).symlink_to(file)
    return {"PATH": str(folder), "VIRTUAL_ENV": None}


@pytest.mark.thorough
def test_without_perl_processes_run_but_restart_policies_are_refused(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """Logs and exit codes work as usual."""
    bare = without_perl(tmp_path)
    sandbox.write(
        "with Experiment() as e:\n"
        '    e.new_process("a", command=["sleep", "3600"]).restart_policy("OnFailure")\n'
        '    e.new_process_group("g").restart_policy("Always")\n'
        '    e.new_process("b", ["true"]).restart_policy("Never")'
    )
    output = sandbox.symphony("up", "rl", "-y", code=2, env=bare).err
    assert "a has a restart policy, for which tmux needs perl on this machine" in output
    assert "line 3" in output
    assert "process group g has a restart policy" in output
    assert output.count("has a restart policy") == 2
    sandbox.write(
        "with Experiment() as e:\n"
        '    e.new_process("a", ["echo one; echo two; setsid sleep 1000 & sleep 0.5; exit 7"])\n'
        '    e.new_process("b", command=["sleep", "3600"])'
    )
    sandbox.symphony("up", "rl", "-y", code=None, env=bare)

    def rows() -> dict[str, Any]:
        return {row["path"]: row for row in sandbox.symphony("process", "rl", "--json", env=bare).json}

    wait_for(lambda: rows()["a"]["state"] == "failed", 10, "it has failed")
    assert "exit 7" in rows()["a"]["why"]
    assert rows()["b"]["state"] == "running"
    assert sandbox.symphony("logs", "rl", "a", env=bare).out.split()[-2:] == ["one", "two"]
    assert "exit 7" in sandbox.symphony("why", "rl", "a", code=None, env=bare).out
    sandbox.symphony("delete", "rl", "-y", env=bare)
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_windows_are_in_the_order_of_declaration(sandbox: Sandbox) -> None:
    """Windows added later are inserted in their places, not at the end."""

    def order() -> list[str | None]:
        (session,) = sandbox.tmux().sessions
        return [window.window_name for window in session.windows][1:]

    for names in ("z m a q", "z x m b a q y"):
        lines = [f'    e.new_process("{name}", command=["sleep", "3600"])' for name in names.split()]
        sandbox.write("with Experiment() as e:\n" + "\n".join(lines))
        before = sandbox.trees()
        sandbox.symphony("up", "rl", "-y")
        assert order() == names.split()
        assert {path: sandbox.trees()[path] for path in before} == before
