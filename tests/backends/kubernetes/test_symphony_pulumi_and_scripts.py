"""`symphony`, plain `pulumi` and Python scripts on the real cluster: each can change what another created."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.backends.kubernetes.test_runs import Live, uids
from tests.sandbox import Sandbox
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
NO_KUBECONFIG = {"KUBECONFIG": "/nowhere"}
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
def test_symphony_creates_plain_pulumi_previews_refreshes_and_destroys(
    sandbox: Sandbox, stack: str, live: Live, kubectl: Callable[..., str]
) -> None:
    (sandbox.folder / "key").write_text("hush")
    sandbox.write(
        """
with Experiment("e", secrets=["key"]) as e:
    e.new_process("server", command="sleep", args=["999"]).exposes({"page": 8080})
    group = e.new_process_group("pool")
    group.node_selector("kubernetes.io/os", "linux")
    for i in range(2):
        group.new_process(f"w{i}", command="sleep", args=["999"]).connects("page")
"""
    )
    sandbox.symphony("up", stack, "-y", timeout=120)
    made = uids(live, stack)
    assert set(made) == {"server", "pool"}
    sandbox.pulumi("preview", "--stack", stack, "--diff", "--expect-no-changes", timeout=120)
    refreshed = sandbox.pulumi("refresh", "--stack", stack, "--yes", "--expect-no-changes", timeout=120)
    assert " unchanged" in refreshed.out
    sandbox.pulumi("preview", "--stack", stack, "--expect-no-changes", timeout=120)
    assert uids(live, stack) == made
    assert {each["state"] for each in sandbox.processes(stack).values()} == {"running"}

    sandbox.pulumi("destroy", "--stack", stack, "--yes", timeout=120)
    assert kubectl("get", "namespace", stack, "--ignore-not-found", "-o", "name") == ""
    assert stack not in sandbox.symphony("ls").out
    assert not list((sandbox.home / "experiments").glob("*"))


@pytest.fixture
def script(sandbox: Sandbox) -> Callable[..., str]:
    """Return a function that runs the script in its own folder; only the script names a kubeconfig."""
    folder = Path(sandbox.folder.parent, "scripts")
    folder.mkdir(exist_ok=True)

    def run(name: str, seconds: int, force: bool = False, **options: str) -> str:
        text = SCRIPT.format(name=name, seconds=seconds, force=force, options=options)
        return sandbox.python(text, env=NO_KUBECONFIG, cwd=folder, timeout=120).out

    return run


def test_a_script_creates_and_changes_symphony_shows_and_deletes(
    sandbox: Sandbox, stack: str, live: Live, script: Callable[..., str], cluster: Cluster, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    content = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    (context, *_) = content["contexts"]
    content["contexts"] = [{**context, "name": "mine"}]
    first.write_text(yaml.safe_dump({**content, "current-context": ""}))
    output = script(stack, 1000, kubeconfig=str(first), context="mine", image=cluster.shell_image)
    assert output.splitlines()[-1].startswith("running")
    result = sandbox.symphony("process", stack, "--json", env=NO_KUBECONFIG).json
    assert {each["path"]: each["state"] for each in result} == {"server": "running", "client": "running"}
    before = uids(live, stack)
    # Another kubeconfig of the same cluster restarts nothing; the previous file need not exist any more.
    first.rename(second)
    script(stack, 1001, force=True, kubeconfig=str(second), image=cluster.shell_image)
    after = uids(live, stack)
    assert [name for name in before if before[name] != after[name]] == ["client"]
    sandbox.symphony("delete", stack, "-y", env=NO_KUBECONFIG, timeout=120)
    assert live("pods", stack) == []
