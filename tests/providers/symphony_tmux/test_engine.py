"""The tmux provider with the real engine: up, preview, refresh, destroy, and killed runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from symphony.engine import binary, environment
from symphony_tmux.processes import process_table
from symphony_tmux.tmux import client
from tests.providers.symphony_tmux.conftest import STORE
from tests.sandbox import tmux_in

PROGRAM = """
import json, pulumi
from symphony_tmux.provider import Session, Window
declared = json.load(open("declared.json"))
owner = f"proj/{pulumi.get_stack()}#%(store)s"
session = Session("session", name="rl", owner=owner, processes=sorted(declared), grace=1)
for path, more in declared.items():
    options = pulumi.ResourceOptions(depends_on=[session], deleted_with=session)
    Window(path, session="rl", owner=owner, path=path, cwd="/", grace=1, opts=options, **more)
"""
OWNER = f"proj/s#{STORE}"


class Engine:
    """One Pulumi project with its own state backend."""

    def __init__(self, folder: Path, home: Path) -> None:
        engine = binary.require()
        self.pulumi = engine.pulumi
        self.tmux = tmux_in(home)
        self.folder = folder / "project"
        self.folder.mkdir()
        (self.folder / "Pulumi.yaml").write_text("name: proj\nruntime: python\n")
        (self.folder / "__main__.py").write_text(PROGRAM.replace("%(store)s", STORE))
        self.state = folder / "state"
        self.state.mkdir()
        self.environ = {
            **os.environ,
            # As `symphony env` sets it for plain `pulumi`.
            "PATH": f"{environment.BIN}:{engine.folder}:{os.environ['PATH']}",
            "PULUMI_BACKEND_URL": f"file://{self.state}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_HOME": str(folder / "pulumi"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_SKIP_CHECKPOINTS": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            **environment.python(),
            "SYMPHONY_HOME": str(home),
        }

    def declare(self, **declared: dict[str, Any]) -> None:
        (self.folder / "declared.json").write_text(json.dumps(declared))

    def command(self, *arguments: str) -> list[str]:
        return [str(self.pulumi), "--non-interactive", *arguments]

    def run(self, *arguments: str, fails: bool = False, **more: str) -> str:
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env={**self.environ, **more},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        result = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, result
        return result

    def up(self, **more: Any) -> str:
        return self.run("up", "-y", "--skip-preview", "-s", "s", **more)

    def destroy(self) -> str:
        return self.run("destroy", "-y", "--skip-preview", "-s", "s")

    def outputs(self) -> dict[str, dict[str, Any]]:
        """Return the outputs of the windows from the state."""
        state = json.loads((self.state / ".pulumi/stacks/proj/s.json").read_text())
        resources = state["checkpoint"]["latest"].get("resources", [])
        return {
            resource["outputs"]["path"]: resource["outputs"]
            for resource in resources
            if resource["type"].endswith(":Window")
        }

    def markers(self) -> list[str]:
        """Return one entry for each living process that was started as a root."""
        panes = {int(pane.pane_pid or 0) for pane in self.tmux.panes}
        return sorted(
            process.marker
            for process in process_table.scan()
            if process.marker.startswith(OWNER) and process.pid in panes
        )


@pytest.fixture
def engine(tmp_path: Path, home: Path) -> Engine:
    made = Engine(tmp_path, home)
    made.run("stack", "init", "s")
    # Processes that a test leaves in tmux are ended with its home.
    return made


SLEEP = {"argv": ["sleep", "1000"]}
LONGER = {"argv": ["sleep", "2000"]}


@pytest.mark.slow
def test_preview_gives_the_reason_of_each_repair(engine: Engine) -> None:
    engine.declare(a=SLEEP, b={"script": ["exit 3"]}, c={"argv": ["true"]}, d=SLEEP)
    engine.up()
    outputs = engine.outputs()
    client.run("default", ["kill-pane", "-t", outputs["d"]["pane_id"]])
    os.kill(int(outputs["a"]["pid"]), signal.SIGKILL)
    output = engine.run("preview", "-s", "s", "--diff")
    killed = "its supervisor was killed by signal 9 (SIGKILL)"
    for reason in ("it exited with code 3", "its window is gone", killed):
        assert re.search(rf'\+ repair +: "{re.escape(reason)}"', output), output
    assert "3 to update" in output
    assert "3 updated" in engine.up()
    os.kill(int(engine.tmux.sessions[0].pid or 0), signal.SIGKILL)
    time.sleep(0.3)
    assert "the tmux server is gone" in engine.run("preview", "-s", "s", "--diff")
    engine.up()
    assert engine.markers() == [f"{OWNER}/a/3", f"{OWNER}/d/3"]


@pytest.mark.thorough
def test_engine_errors_state_what_is_wrong(engine: Engine) -> None:
    engine.declare(a=SLEEP)
    engine.up()
    output = engine.run("preview", "-s", "s", fails=True, SYMPHONY_HOST="elsewhere")
    assert "experiment rl was started on host" in output
    engine.declare(a={**SLEEP, "env": {"a.b": "1"}})
    assert "not a valid name" in engine.up(fails=True)
    engine.declare(a=SLEEP)


def _kill_engine_after(engine: Engine, windows: int) -> None:
    """Kill the engine, and nothing else, when that many windows exist."""
    started = subprocess.Popen(
        engine.command("up", "-y", "--skip-preview", "-s", "s"),
        cwd=engine.folder,
        env=engine.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while len(engine.tmux.windows) <= windows:
        assert time.monotonic() < deadline
        if started.poll() is not None:
            break
        time.sleep(0.01)
    scan = process_table.scan()
    hosts = [process for process in scan if process.parent == started.pid and _is_language_host(process.pid)]
    programs = [process for process in scan if process.parent in {host.pid for host in hosts}]
    started.kill()
    started.wait()
    # Pulumi's own language host, and the program of a killed host, outlive the engine for a minute; they are
    # not tested here.
    for process in process_table.alive(each.identity for each in [*hosts, *programs]):
        os.kill(process.pid, signal.SIGKILL)
    engine.run("cancel", "-y", "-s", "s")


def _is_language_host(pid: int) -> bool:
    return b"pulumi-language-python" in Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.thorough
def test_up_after_a_killed_update_completes_the_update(engine: Engine) -> None:
    names = [f"p{i}" for i in range(8)]
    engine.declare(**dict.fromkeys(names, SLEEP))
    engine.up()
    more = [*names, *(f"q{i}" for i in range(8))]
    engine.declare(**dict.fromkeys(more, LONGER))
    _kill_engine_after(engine, 11)
    engine.up()
    assert len(engine.markers()) == 16
    assert {marker.rsplit("/", 2)[1] for marker in engine.markers()} == set(more)
    outputs = engine.outputs()
    assert {f"{OWNER}/{path}/{int(output['attempt'])}" for path, output in outputs.items()} == set(
        engine.markers()
    )
    assert all(output["argv"] == ["sleep", "2000"] for output in outputs.values())


@pytest.mark.thorough
def test_providers_end_when_the_engine_is_killed(engine: Engine) -> None:
    engine.declare(**{f"p{i}": SLEEP for i in range(16)})
    _kill_engine_after(engine, 2)
    deadline = time.monotonic() + 5
    while _providers(engine):
        assert time.monotonic() < deadline, "a provider outlived its engine"
        time.sleep(0.1)


def _providers(engine: Engine) -> list[int]:
    result: list[int] = []
    for process in process_table.scan():
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            here = str(Path(f"/proc/{process.pid}/cwd").readlink()) == str(engine.folder)
        except OSError:
            continue
        if here and b"symphony_dynamic" in words:
            result.append(process.pid)
    return result
