"""Engine runs whose program is a function of this process, with the real engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from symphony.engine import errors, workspace
from symphony.engine.run.run import Run, workspace_for
from tests.engine.support import TINY, processes_with
from tests.sandbox import wait_for


def thing(name: str, **props: object) -> None:
    import pulumi

    from tests.engine.tiny.tiny_provider import REFERENCE

    class Thing(pulumi.CustomResource): ...

    full = {"value": "1", "sleep": 0, "fail": "", "mark": "", **props, "__provider": REFERENCE}
    Thing("pulumi-python:dynamic/tiny_provider:Thing", name, full)


@pytest.fixture(autouse=True)
def tiny_provider_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TINY))


@pytest.mark.thorough
@pytest.mark.usefixtures("engine")
def test_ctrl_c_in_a_script_ends_all_processes(tmp_path: Path) -> None:
    there = tmp_path / "there"
    script = tmp_path / "script.py"
    script.write_text(f"""
import sys
sys.path[:0] = [{str(Path(__file__).parents[3])!r}]
from symphony.engine import errors, workspace
from symphony.engine.run.run import Run, workspace_for
from tests.engine.run.test_inline import thing
place = workspace_for("pi")
workspace.create_stack(place, "pi")
with Run("up", place, "pi", program=lambda: thing("slow", sleep=60, mark={str(there)!r}),
               extra={{"MARK": "inline-{tmp_path.name}", "PYTHONPATH": {str(TINY)!r}}}) as run:
    list(run)
errors.check(run.outcome)
""")
    process = subprocess.Popen([sys.executable, script], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_for(there.exists, 30, "the slow thing is being made")
    process.send_signal(2)
    _, output = process.communicate(timeout=15)
    assert "up of pi was interrupted" in output
    assert processes_with(f"MARK=inline-{tmp_path.name}") == []


@pytest.mark.thorough
@pytest.mark.usefixtures("engine")
def test_a_script_dials_the_engine_without_the_proxy_of_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = workspace_for("pi")
    workspace.create_stack(place, "pi")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    variables: list[dict[str, str]] = []

    def program() -> None:
        variables.append(dict(os.environ))
        thing("one")

    before = dict(os.environ)
    # Without a network namespace of its own, the engine is dialled over TCP.
    with Run("preview", place, "pi", program=program, extra={"SYMPHONY_NETWORK": "host"}) as run:
        list(run)
    errors.check(run.outcome)
    assert variables == [before]
