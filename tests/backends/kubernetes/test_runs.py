"""Experiments on the real cluster: logs, secrets, and what is kept, drifts or leaks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from symphony.backends.kubernetes import observe
from symphony.backends.kubernetes.api.client import client_of, path_of
from symphony.backends.observe import Recorded
from tests.backends.kubernetes.relay import relayed
from tests.sandbox import SYMPHONY, Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
Live = Callable[[str, str], list[dict[str, Any]]]

PAIR = """
with Experiment("e") as e:
    e.new_process("server", command="sh", args=["-c", "env; sleep 1000"]).binds("alpha")
    group = e.new_process_group("pool")
    for i in range(2):
        group.new_process(f"w{i}", command="sleep", args=["1000"]).connects("alpha")
"""


def up(sandbox: Sandbox, stack: str, program: str, code: int | None = None) -> str:
    sandbox.write(program)
    ran = sandbox.symphony("up", stack, "-y", code=code, timeout=120)
    return ran.out + ran.err


def becomes(
    sandbox: Sandbox, stack: str, path: str, state: str, words: str = "", seconds: float = 60
) -> dict[str, Any]:
    def there() -> Any:
        result = sandbox.processes(stack).get(path, {})
        return result if result.get("state") == state and words in result["why"] else None

    return wait_for(there, seconds, f"{path} is {state} {words}", pause=0.5)


def uids(live: Live, namespace: str) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in live("pods", namespace)}


def test_restart_starts_the_supervisor_again_and_creates_new_secrets(
    sandbox: Sandbox, stack: str, cluster: Cluster, live: Live, tmp_path: Path
) -> None:
    """The supervisor ends minutes after all pods; here after a second."""
    program = """
from symphony.backends.kubernetes.manifests import supervisor_pod
supervisor_pod._SOURCE = supervisor_pod._SOURCE.replace("300.0", "1.0")
with Experiment("e") as e:
    prepare = e.new_process("prepare", command="true")
    train = e.new_process("train", cmds=["echo token $TOKEN"])
    train.depends_on(prepare, condition="completed")
"""
    sandbox.config(stack, supervisorImage=cluster.python_image)
    up(sandbox, stack, program)
    sandbox.symphony("wait", stack)
    wait_for(lambda: live("jobs", stack)[0]["status"].get("succeeded"), 90, "the supervisor has ended")
    (token := tmp_path / "token").write_text("quiet")
    sandbox.write(program.replace("Experiment(", f'Experiment(secret_env={{"TOKEN": "{token}"}}, name='))
    sandbox.symphony("restart", stack, "train", "-y", timeout=120)
    sandbox.symphony("wait", stack, "--timeout", "90s")
    assert "token quiet" in sandbox.symphony("logs", stack, "train").out


def test_logs_are_followed_across_restarts(sandbox: Sandbox, stack: str, cluster: Cluster) -> None:
    up(
        sandbox,
        stack,
        """
with Experiment("e") as e:
    p = e.new_process("p", command="sh", args=["-c", "echo begin; sleep 1; echo middle; sleep 1; exit 5"])
    p.restart_policy("Always")
    e.new_process("q", command="sh", args=["-c", "for i in 1 2 3; do echo q$i; sleep 1; done"])
""",
    )
    recorded = Recorded(
        "",
        stack,
        {name: {"pod_name": name, "container_name": name} for name in "pq"},
        connection={"kubeconfig": cluster.kubeconfig},
    )
    # It runs for two seconds, and waits ever longer between its starts.
    wait_for(lambda: "begin" in [line.text for line in observe.logs(recorded, ["p"])], 60, "p has begun")
    lines: list[tuple[str, str]] = []
    for line in observe.logs(recorded, ["p", "q"], alive=lambda: True):
        lines.append((line.path, line.text))
        if [path for path, text in lines if text == "begin"] == ["p", "p"]:
            break
    # A busy node may have no log of a start yet, and says so.
    of_p = [text for path, text in lines if path == "p" and not text.startswith("unable to retrieve")]
    assert of_p[:4] == ["begin", "middle", "ended: exit 5", "begin"]
    assert [text for path, text in lines if path == "q"][:3] == ["q1", "q2", "q3"]
    assert [each.text for each in observe.logs(recorded, ["q"], tail=1) if not each.ended] == ["q3"]


COUNTING = """
with Experiment("e") as e:
    e.new_process("a", command="sh", args=["-c", "i=0; while :; do echo n $i; i=$((i+1)); sleep 0.1; done"])
"""


@pytest.mark.thorough
def test_logs_resume_after_a_broken_connection(
    sandbox: Sandbox, stack: str, cluster: Cluster, tmp_path: Path
) -> None:
    """No line is lost or printed twice; the command ends when the pod is gone."""
    with relayed(cluster.kubeconfig, tmp_path) as (kubeconfig, cut):
        sandbox.config(stack, **{"kubernetes:kubeconfig": kubeconfig})
        up(sandbox, stack, COUNTING, code=0)
        following = sandbox.start([str(SYMPHONY), "logs", stack, "a", "-f"])
        assert following.stdout is not None
        seen: list[int] = []
        for moment in (20, 40, 60, 80):
            while len(seen) < moment:
                seen.append(int(following.stdout.readline().split()[1]))
            wait_for(cut, 20, "a connection to cut")
        client_of(cluster.kubeconfig, "").delete(path_of("pods", stack, "a"), grace=0)
        # communicate() would miss the data that readline() has buffered.
        out = following.stdout.read()
        _, err = following.communicate(timeout=60)
        seen += [int(line.split()[1]) for line in out.splitlines() if line.startswith("n ")]
        assert seen == list(range(len(seen)))
        assert following.returncode == 1, err  # its process was killed
        sandbox.config(stack, **{"kubernetes:kubeconfig": cluster.kubeconfig})


def test_a_non_root_process_reads_its_secret_and_no_file_of_symphony_has_it(
    sandbox: Sandbox, stack: str, cluster: Cluster, tmp_path: Path
) -> None:
    """It reads the file through its group, at the restricted level."""
    (tmp_path / "key.txt").write_text("hush-hush-7")
    sandbox.config(stack, podSecurity="restricted")
    script = "id -u; cat $SYMPH_SECRETS_DIR/*; echo; ls -lL /etc/secrets"
    up(
        sandbox,
        stack,
        f"""
with Experiment("e", secrets=["{tmp_path / "key.txt"}"]) as e:
    p = e.new_process("a", command="sh", args=["-c", "{script}"])
    p.container_yml["securityContext"] = {{"runAsUser": 65534}}
""",
    )
    becomes(sandbox, stack, "a", "completed")
    output = sandbox.symphony("logs", stack, "a").out
    assert output.splitlines()[:2] == ["65534", "hush-hush-7"]
    assert "r--r-----" in output
    user = yaml.safe_load(Path(cluster.kubeconfig).read_text())["users"][0]["user"]
    credentials = (
        user.get("client-key-data")
        or user.get("token")
        or Path(user["client-key"]).read_text().splitlines()[1]
    )
    for file in sandbox.home.rglob("*.json*"):
        assert credentials[:60] not in file.read_text(errors="replace"), file
    # The process printed the secret, so its kept log has it.
    sandbox.symphony("delete", stack, "-y", "--forget", timeout=120)
    for file in sandbox.home.rglob("*"):
        assert not file.is_file() or b"hush" not in file.read_bytes(), file
        assert not file.is_file() or b"aHVzaC1odXNoLTc" not in file.read_bytes(), file


WORD = "hush-9c1d"
SECRETIVE = """
import pulumi
with Experiment(secret_env={"FILE": "key.txt"}, secrets=["file.txt"]) as e:
    show = ["sh", "-c", "echo ${#FILE}-${#OUT}-$FILE | cut -c1-6; sleep 3600"]
    a = e.new_process("a", command=show, env={"OUT": pulumi.Output.secret("hush-9c1d-out")})
    e.new_process("b", command=["sleep", "3600"], env={"FILE": "plain"})
"""


def test_secret_env_reaches_the_container_leaks_nowhere_and_a_new_value_restarts_it(
    sandbox: Sandbox, stack: str, live: Live
) -> None:
    (sandbox.folder / "key.txt").write_text("hush-9c1d-one\n")
    (sandbox.folder / "file.txt").write_text("x\n")
    sandbox.write(SECRETIVE)
    shown = [sandbox.symphony("plan", stack, "--json").out, sandbox.symphony("up", stack, "-y").out]
    result = wait_for(lambda: sandbox.symphony("logs", stack, "a").out, 30, "the process prints")
    assert "13-13-" in result
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in live("pods", stack)}
    (sandbox.folder / "key.txt").write_text("hush-9c1d-two\n")
    (sandbox.folder / "file.txt").write_text("y\n")
    plan = sandbox.symphony("plan", stack)
    assert "secret_env FILE: changed" in plan.out
    assert "secret file.txt changed" in plan.out
    shown += [plan.out, sandbox.symphony("up", stack, "-y").out, str(live("pods", stack))]
    shown += [sandbox.pulumi("stack", "export", "-s", stack).out]
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in live("pods", stack)}
    assert after["a"] != before["a"]
    assert after["b"] == before["b"], "its FILE is plain text of its own"
    assert sandbox.symphony("exec", stack, "a", "--", "sh", "-c", "echo $FILE").out == "hush-9c1d-two\n"
    (sandbox.folder / "key.txt").write_text("hush-9c1d-three\n")
    sandbox.symphony("restart", stack, "a")
    assert sandbox.symphony("exec", stack, "a", "--", "sh", "-c", "echo $FILE").out == "hush-9c1d-three\n"
    again = sandbox.symphony("up", stack, "-y").out
    assert "Nothing changes" in again
    assert [each for each in shown if WORD in each] == []
    # The kept code of a run has the program, which has the word itself, and links to files with secrets.
    files = [file for file in sandbox.home.rglob("*") if file.is_file() and not file.is_symlink()]
    assert {file.name for file in files if WORD.encode() in file.read_bytes()} == {"__main__.py"}


PRINTS = """
with Experiment() as e:
    e.new_process("a", command=["sh", "-c", "echo {word} 1; echo {word} 2; sleep 1000"])
"""


def test_runs_keep_the_logs_of_replaced_and_deleted_pods(sandbox: Sandbox, stack: str) -> None:
    def printed(word: str) -> None:
        wait_for(lambda: f"{word} 2" in sandbox.symphony("logs", stack).out, 30, f"it has printed {word}")

    for word in ("first", "second"):
        sandbox.write(PRINTS.format(word=word))
        sandbox.symphony("up", stack, "-y")
        printed(word)
    assert sandbox.symphony("logs", stack, "--run", "1").out.splitlines()[:2] == ["first 1", "first 2"]
    assert "second 1" in sandbox.symphony("logs", stack, "--run", "2").out
    assert "2 runs kept" in sandbox.symphony("delete", stack, "-y").out
    last = sandbox.symphony("logs", stack).out
    assert last.splitlines()[:2] == ["second 1", "second 2"]
    assert "first" not in last
    (second, first) = sandbox.symphony("history", stack, "--json").json
    assert first["state"] == "ended by the next run"
    assert second["state"] == "deleted"
    assert second["missing"] == []


def test_drift_lists_changed_objects_and_leaks_list_unrecorded_ones(
    sandbox: Sandbox, stack: str, cluster: Access, kubectl: Callable[..., str]
) -> None:
    sandbox.write(PRINTS.format(word="x").replace('1000"])', '1000"], binds=["replay"])'))
    sandbox.symphony("up", stack, "-y")
    assert sandbox.symphony("drift", stack, "--json").json == []
    patch = '{"spec": {"ports": [{"name": "replay", "port": 7777, "targetPort": 7777}]}}'
    (service,) = kubectl("-n", stack, "get", "service", "-o", "name").split()
    kubectl("-n", stack, "patch", service, "--type=merge", "-p", patch)
    rows = sandbox.symphony("drift", stack, "--json", code=1).json
    assert {row["field"] for row in rows} >= {"spec.ports[0].port"}
    kubectl("-n", stack, "set", "image", "pod/a", "a=localhost:5000/no/such:1")
    out = sandbox.symphony("drift", stack, code=1).out
    assert f"`symphony restart {stack} a`" in out
    assert f"pulumi refresh -s {stack}`" in out
    sandbox.symphony("restart", stack, "a", "-y")
    sandbox.pulumi("refresh", "-s", stack, "--yes")
    sandbox.symphony("up", stack, "-y")
    assert sandbox.symphony("drift", stack, "--json").json == []
    kubeconfig = {"KUBECONFIG": str(cluster.kubeconfig)}
    assert stack not in sandbox.symphony("leaks", code=None, env=kubeconfig).out
    (state,) = sandbox.home.glob(f"state/.pulumi/stacks/*/{stack}.json")
    aside = state.rename(state.with_name("aside"))
    leaked = sandbox.symphony("leaks", code=1, env=kubeconfig).out
    assert f"delete namespace {stack}" in leaked
    aside.rename(state)
    sandbox.symphony("delete", stack, "-y")
