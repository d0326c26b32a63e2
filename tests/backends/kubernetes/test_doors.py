"""The three doors on the real cluster: what one made the others see, change and delete."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.backends.kubernetes.test_runs import Live, becomes, uids
from tests.desk import Desk
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
NO_KUBECONFIG = {"KUBECONFIG": "/nowhere"}

PROGRAM = """
with Experiment("e") as e:
    e.new_process("server", command="sleep", args=["999"]).binds("alpha")
    e.new_process("client", command="sleep", args=["{seconds}"]).connects("alpha")
"""
SCRIPT = """
from symphony.engine import Cluster
cluster = Cluster.new("kube", **{options!r})
e = cluster.new_experiment({name!r})
server = e.new_process("server", command="sleep", args=["999"])
server.binds("alpha")
client = e.new_process("client", command="sleep", args=["{seconds}"])
client.connects("alpha")
cluster.launch(e, force={force})
print(cluster.describe_experiment({name!r})[None]["client"]["State"])
"""


@pytest.mark.thorough
def test_made_by_pulumi_changed_by_symphony_deleted_by_a_script(desk: Desk, stack: str, live: Live) -> None:
    desk.write(PROGRAM.format(seconds=1000))
    desk.pulumi("stack", "init", stack)
    desk.pulumi("up", "--stack", stack, "--yes", "--skip-preview", timeout=120)
    becomes(desk, stack, "client", "running")
    becomes(desk, stack, "server", "running")
    before = uids(live, stack)
    assert set(before) == {"server", "client"}
    assert "Nothing changes" in desk.symphony("up", stack, "-y", timeout=120).out

    desk.write(PROGRAM.format(seconds=1001))
    desk.symphony("up", stack, "-y", timeout=120)
    after = uids(live, stack)
    assert [name for name in before if before[name] != after[name]] == ["client"]
    desk.pulumi("up", "--stack", stack, "--yes", "--skip-preview", "--expect-no-changes")

    desk.python(f"from symphony.engine import Cluster; Cluster.new('kube').delete({stack!r})", timeout=120)
    assert live("pods", stack) == live("services", stack) == []
    assert stack not in desk.symphony("ls").out


@pytest.fixture
def script(desk: Desk) -> Callable[..., str]:
    """Runs the plain script in a folder of its own; only it knows of a kubeconfig."""
    folder = Path(desk.folder.parent, "scripts")
    folder.mkdir(exist_ok=True)

    def run(name: str, seconds: int, force: bool = False, **options: str) -> str:
        text = SCRIPT.format(name=name, seconds=seconds, force=force, options=options)
        return desk.python(text, env=NO_KUBECONFIG, cwd=folder, timeout=120).out

    return run


def test_made_by_a_script_seen_by_symphony_changed_by_the_script_deleted_by_symphony(
    desk: Desk, stack: str, live: Live, script: Callable[..., str], cluster: Cluster, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    content = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    (context, *_) = content["contexts"]
    content["contexts"] = [{**context, "name": "mine"}]
    first.write_text(yaml.safe_dump({**content, "current-context": ""}))
    said = script(stack, 1000, kubeconfig=str(first), context="mine", image=cluster.shell_image)
    assert said.splitlines()[-1].startswith("running")
    found = desk.symphony("process", stack, "--json", env=NO_KUBECONFIG).json
    assert {each["path"]: each["state"] for each in found} == {"server": "running", "client": "running"}
    before = uids(live, stack)
    # Another way to the same cluster restarts nothing, and need not know of the one before.
    first.rename(second)
    script(stack, 1001, force=True, kubeconfig=str(second))
    after = uids(live, stack)
    assert [name for name in before if before[name] != after[name]] == ["client"]
    desk.symphony("delete", stack, "-y", env=NO_KUBECONFIG, timeout=120)
    assert live("pods", stack) == []
