"""`symphony`, plain `pulumi` and Python scripts on the real cluster: each can change what another created."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.backends.kubernetes.test_runs import Live, becomes, uids
from tests.sandbox import Sandbox
from toolchain.kubernetes.fixtures import Access as Cluster
from toolchain.kubernetes.layout import NODE_ADDRESS

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
def test_pulumi_creates_symphony_changes_a_script_deletes(sandbox: Sandbox, stack: str, live: Live) -> None:
    sandbox.write(PROGRAM.format(seconds=1000))
    sandbox.pulumi("stack", "init", stack)
    sandbox.pulumi("up", "--stack", stack, "--yes", "--skip-preview", timeout=120)
    becomes(sandbox, stack, "client", "running")
    becomes(sandbox, stack, "server", "running")
    before = uids(live, stack)
    assert set(before) == {"server", "client"}
    assert "Nothing changes" in sandbox.symphony("up", stack, "-y", timeout=120).out

    sandbox.write(PROGRAM.format(seconds=1001))
    # The server would judge the new spec as a change of the pod that lives, which no pod may have.
    previewed = sandbox.pulumi("preview", "--stack", stack, "--diff", timeout=120).out
    assert "1001" in previewed, previewed
    assert "1 to replace" in previewed, previewed
    assert "restart" in sandbox.symphony("plan", stack, timeout=120).out
    assert uids(live, stack) == before

    sandbox.symphony("up", stack, "-y", timeout=120)
    after = uids(live, stack)
    assert [name for name in before if before[name] != after[name]] == ["client"]
    args = {each["metadata"]["name"]: each["spec"]["containers"][0]["args"] for each in live("pods", stack)}
    assert args == {"server": ["999"], "client": ["1001"]}
    sandbox.pulumi("up", "--stack", stack, "--yes", "--skip-preview", "--expect-no-changes")

    sandbox.python(f"from symphony.engine import Cluster; Cluster.new('kube').delete({stack!r})", timeout=120)
    assert live("pods", stack) == live("services", stack) == []
    assert stack not in sandbox.symphony("ls").out


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


SCRIPTED = """
import sys
from pathlib import Path
from symphony import KubeCluster
from symphony.errors import UserError
cluster = KubeCluster()
def experiment(name):
    e = cluster.new_experiment(name)
    talks = ["-c", "httpd -p 8080 -h /tmp; for i in 1 2 3; do echo line $i; done; sleep 999"]
    e.new_process("talker", command="sh", args=talks).exposes({"page": 8080})
    e.new_process_group("pool").new_process("w", command="sleep", args=["999"]).binds("inner")
    return e
first, second = sys.argv[1:]
"""
PLANNED = """
planned = cluster.launch(experiment(first), dry_run=True)
assert "talker" in str(planned) and "pool/w" in str(planned), planned
assert first not in cluster.list_experiments()
"""
LAUNCHED = """
ended = cluster.launch_batch([experiment(first), experiment(second)])
assert [each.stack for each in ended] == [first, second] and not any(each.troubled for each in ended), ended
assert {first, second} <= set(cluster.list_experiments())
"""
USED = """
assert list(cluster.get_log(first, "talker")) == ["line 1", "line 2", "line 3"]
assert list(cluster.get_log(first, "talker", tail=1)) == ["line 3"]
assert list(cluster.get_log(first, "w", "pool")) == []
assert cluster.exec_command(first, "w", ["sh", "-c", "echo on $HOSTNAME; exit 3"], "pool") == 3
assert cluster.exec_command(second, "talker", 'test "a b" = "a b"') == 0
Path("note").write_text("hello")
cluster.transfer_file(first, Path("note"), "talker:/tmp/note")
cluster.transfer_file(first, "talker:/tmp/note", "back")
assert Path("back").read_text() == "hello"
assert cluster.exec_command(second, "talker", "test -e /tmp/note") == 1
print(cluster.external_url(first, "page"))
try:
    cluster.external_url(first, "inner")
except UserError as error:
    assert f"inner of {first} has no address outside of its cluster" in str(error), error
else:
    raise SystemExit("inner is reached from outside")
cluster.delete_batch([first, second])
assert not {first, second} & set(cluster.list_experiments())
"""


@pytest.mark.thorough
def test_a_script_plans_launches_and_queries_an_experiment(
    sandbox: Sandbox, stack: str, live: Live, own: Cluster, kubectl: Callable[..., str]
) -> None:
    second = f"{stack}-b"
    for name in (stack, second):
        where = {"kubernetes:kubeconfig": own.kubeconfig}
        sandbox.config(
            name, backend="kubernetes", expose="NodePort", image=own.shell_image, grace="1", **where
        )

    def script(text: str) -> str:
        return sandbox.run([sys.executable, "-c", SCRIPTED + text, stack, second], timeout=120).out

    try:
        script(PLANNED)
        assert live("pods", stack) == []
        script(LAUNCHED)
        assert set(uids(live, stack)) == set(uids(live, second)) == {"talker", "pool"}
        (service,) = [each for each in live("services", stack) if each["metadata"]["name"] == "page"]
        port = service["spec"]["ports"][0]["nodePort"]
        result = script(USED).splitlines()
        assert "on pool" in result
        assert f"{NODE_ADDRESS}:{port}" in result
        assert live("pods", stack) == live("pods", second) == []
    finally:
        kubectl("delete", "namespace", second, "--ignore-not-found", "--wait=false")


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
    message = script(stack, 1000, kubeconfig=str(first), context="mine", image=cluster.shell_image)
    assert message.splitlines()[-1].startswith("running")
    result = sandbox.symphony("process", stack, "--json", env=NO_KUBECONFIG).json
    assert {each["path"]: each["state"] for each in result} == {"server": "running", "client": "running"}
    before = uids(live, stack)
    # Another way to the same cluster restarts nothing, and need not know of the one before.
    first.rename(second)
    script(stack, 1001, force=True, kubeconfig=str(second))
    after = uids(live, stack)
    assert [name for name in before if before[name] != after[name]] == ["client"]
    sandbox.symphony("delete", stack, "-y", env=NO_KUBECONFIG, timeout=120)
    assert live("pods", stack) == []
