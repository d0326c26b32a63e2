"""Classic example programs: run in tmux from launch to delete, rendered for Kubernetes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.sandbox import Sandbox, sandbox_in

PROGRAMS = Path(__file__).with_name("programs")
# program -> the name of its experiment, and the beginning of the first line of each process.
RUNS = {
    "processes": (
        "forms",
        {"ps": "ps at 127.0.0.1:", "agent-0": "7 train 1 0.5", "agent-1": "agent-1 8"},
    ),
    "groups": (
        "grouped",
        {
            "eval": "eval",
            "tb": "tb",
            "db": "db",
            "nonagent/learner": "yes gpu /",
            "nonagent/replay": "cpu",
            "nonagent/logger": "logger",
            "agents-0/agent": "agent 0",
            "agents-1/agent": "agent 1",
        },
    ),
    "pods": ("placed", {"learner": "here", "agents/agent-0": "here", "agents/agent-1": "here"}),
    "secret_files": ("keyed", {"sim": "hello", "sims/sim-0": "hello"}),
    "saved": ("ada-kept", {"sim": "mjpro150", "agents/agent": "agent"}),
    "names": ("My.Exp", {"Joy": "Joy at 127.0.0.1:", "Non_Agent/agent_0": "agent_0 at 127.0.0.1:"}),
    "options": ("opted", {"a": "yes /"}),
}
# A script that continues after its launch with calls of the original.
GOES_ON = """
import json, runpy, time
program = runpy.run_path("program.py")
cluster, name = program["cluster"], program["exp"].name
described, printed = cluster.describe_experiment(name), {}
for group, members in described.items():
    for process, columns in members.items():
        assert columns["State"].startswith("running"), columns
        until = time.monotonic() + 20
        while not (lines := cluster.get_log(name, process, group)) and time.monotonic() < until:
            time.sleep(0.1)
        printed["/".join(filter(None, (group, process)))] = lines
        words = ["sh", "-c", 'test "$SYMPHONY_ROLE" && exit 3']
        assert cluster.exec_command(name, process, words, group) == 3
assert len(cluster.list_experiments()) == 1
cluster.delete(name)
assert cluster.list_experiments() == []
print(json.dumps(printed))
"""


@pytest.fixture(params=RUNS)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Sandbox]]:
    """Yield the name of a program, and a project with it, on a machine without a kubeconfig."""
    with sandbox_in(tmp_path) as made:
        text = (PROGRAMS / f"{request.param}.py").read_text()
        for file in ("__main__.py", "program.py"):
            (made.folder / file).write_text(text)
        made.environment |= {"KUBECONFIG": str(tmp_path / "none"), "CLUSTER": "tmux"}
        yield request.param, made


@pytest.mark.thorough
def test_classic_programs_run_on_tmux(program: tuple[str, Sandbox]) -> None:
    name, sandbox = program
    experiment, lines = RUNS[name]
    # As the program of a project it is only planned.
    assert f"{len(lines)} to start" in sandbox.symphony("plan", experiment).out
    (sandbox.folder / "Pulumi.yaml").unlink()
    # As a script it is planned, then launched.
    planned = sandbox.run([sys.executable, "program.py"], env={"DRY_RUN": "yes"})
    assert (planned.out, sandbox.trees(), sandbox.servers(), sandbox.stacks()) == ("", {}, [], set())
    printed: dict[str, list[str]] = json.loads(sandbox.python(GOES_ON).out.splitlines()[-1])
    assert set(printed) == set(lines)
    assert all(printed[path][0].startswith(line) for path, line in lines.items()), printed
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_classic_programs_render_the_expected_manifests(program: tuple[str, Sandbox]) -> None:
    """A dry run of the script equals `symphony plan --yaml` of a project."""
    name, sandbox = program
    kube = {"CLUSTER": "kube"}
    planned = sandbox.symphony("plan", RUNS[name][0], "--yaml", env=kube).out
    (sandbox.folder / "Pulumi.yaml").unlink()
    script = "import runpy\nplan = runpy.run_path('program.py')['launched']\nprint(plan.yaml, end='')"
    assert without_owner(sandbox.python(script, env={**kube, "DRY_RUN": "yes"}).out) == without_owner(planned)
    expected = (PROGRAMS / f"{name}.yaml").read_text()
    assert list(yaml.safe_load_all(without_owner(planned))) == list(yaml.safe_load_all(expected))


def without_owner(manifests: str) -> str:
    """Return manifests without what identifies this stack and this machine."""
    return re.sub(r"symphony/(owner|digest): .*", r"symphony/\1: any", manifests)
