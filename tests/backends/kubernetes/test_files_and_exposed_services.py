"""Pods on the real cluster receive config and secret files and git clones, and expose services."""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.backends.kubernetes.diagnosis.test_why import broken, steps
from tests.backends.kubernetes.test_runs import Live, becomes, uids, up
from tests.sandbox import Sandbox, wait_for
from toolchain.kubernetes import images
from toolchain.kubernetes.fixtures import Access as Cluster
from toolchain.kubernetes.layout import NODE_ADDRESS, REGISTRY

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
GIT_IMAGE = f"{REGISTRY}/symphony/git:1"
SERVER = """
script = "cd /tmp; echo hello from the pod > index.html; exec httpd -f -p $SYMPH_PAGE_PORT -h /tmp"
with Experiment("e") as e:
    e.new_process("web", command="sh", args=["-c", script]).exposes({"page": 8080})
"""


@pytest.mark.thorough
def test_config_files_arrive_unchanged_restart_no_process_and_are_restored_after_an_edit(
    sandbox: Sandbox, stack: str, live: Live, kubectl: Callable[..., str]
) -> None:
    """A file with every character arrives; `up` mends a ConfigMap that kubectl has changed."""
    text = "".join(map(chr, (*range(1, 256), 0x2028, 0x2029, 0xFEFF, 0xFFFD, 0xFFFE, 0x1F600)))
    (sandbox.folder / "train.yaml").write_text(text)
    (sandbox.folder / "table.bin").write_bytes(b"\xff\x00\xfe")
    program = """
with Experiment("e", configs=["train.yaml", "table.bin"]) as e:
    e.new_process("a", command="sh", args=["-c", "cd $SYMPH_CONFIGS_DIR; sha256sum *; sleep 999"])
"""
    up(sandbox, stack, program, code=0)
    names = ("table.bin", "train.yaml")
    digests = [hashlib.sha256((sandbox.folder / name).read_bytes()).hexdigest() for name in names]
    wait_for(lambda: digests[1] in sandbox.symphony("logs", stack).out, 20, "it has read them")
    assert sandbox.symphony("logs", stack).out.split() == [digests[0], names[0], digests[1], names[1]]
    assert " changed" not in up(sandbox, stack, program, code=0)
    before = live("pods", stack)[0]["metadata"]["uid"]
    (sandbox.folder / "train.yaml").write_text("lr: 0.2\n")
    up(sandbox, stack, program, code=0)
    assert live("pods", stack)[0]["metadata"]["uid"] == before
    (result,) = [each for each in live("configmaps", stack) if each["metadata"]["name"] == "symphony-configs"]
    assert result["data"] == {"train.yaml": "lr: 0.2\n"}

    edit = {"train.yaml": "lr: 99\n", "more": "x"}
    patch = json.dumps({"data": edit})
    kubectl("-n", stack, "patch", "configmap", "symphony-configs", "--type=merge", "-p", patch)
    rows = sandbox.symphony("drift", stack, "--json", code=1).json
    assert {row["field"]: row["lives"] for row in rows} == {f"data.{key}": edit[key] for key in edit}
    assert "train.yaml changed" in up(sandbox, stack, program, code=0)
    assert "Nothing changes" in up(sandbox, stack, program, code=0)

    (sandbox.folder / "train.yaml").unlink()
    output = up(sandbox, stack, program, code=2)
    assert 'the config file "train.yaml" cannot be read: no such file' in output
    assert "line 3" in output


@pytest.mark.thorough
def test_up_updates_the_secret_file_in_a_running_pod(
    sandbox: Sandbox, stack: str, tmp_path: Path, live: Live
) -> None:
    """The pod is not replaced; the process must reread the file."""
    key = tmp_path / "key.txt"
    program = f"""
with Experiment("e", secrets=[{str(key)!r}]) as e:
    read = 'while :; do read line < $SYMPH_SECRETS_DIR/key.txt; echo "is $line"; sleep 1; done'
    e.new_process("a", command="sh", args=["-c", read])
"""
    key.write_text("first\n")
    up(sandbox, stack, program, code=0)
    before = uids(live, stack)
    key.write_text("second\n")
    up(sandbox, stack, program, code=0)
    wait_for(lambda: "is second" in sandbox.symphony("logs", stack, "-t", "3").out, 100, "the file", pause=1)
    assert uids(live, stack) == before


@pytest.fixture(scope="module")
def git_image(cluster: Cluster) -> str:
    """A small image with this machine's git and a shell."""
    program = shutil.which("git")
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names a cluster without a registry of ours")
    assert program, "git is needed"
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=10, check=True).stdout
    libraries = [word for word in listed.split() if word.startswith("/")]
    files = {each.lstrip("/"): Path(each).read_bytes() for each in libraries}
    files |= {"bin/git": Path(program).read_bytes(), "bin/busybox": images.busybox_program().read_bytes()}
    images.push(GIT_IMAGE, files, ["/bin/sh"], links={"bin/sh": "busybox"})
    return GIT_IMAGE


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A repository that pods can fetch from this machine, and the short name of its first commit.

    There are two commits on main, and a tag at the first.
    """

    def git(*words: str) -> str:
        argv = ["git", "-c", "user.name=t", "-c", "user.email=t@t.test", *words]
        done = subprocess.run(argv, cwd=work, timeout=20, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    work = tmp_path / "served" / "code"
    work.mkdir(parents=True)
    git("init", "-q", "-b", "main")
    for text in ("one", "two"):
        (work / "main.py").write_text(text)
        git("add", ".")
        git("commit", "-q", "-m", text)
        if text == "one":
            git("tag", "v1")
    with socket.create_server((NODE_ADDRESS, 0)) as free:
        port = free.getsockname()[1]
    listen = [f"--listen={NODE_ADDRESS}", f"--port={port}", "--reuseaddr"]
    command = ["git", "daemon", "--export-all", f"--base-path={work.parent}", *listen]
    daemon = subprocess.Popen(command, stderr=subprocess.DEVNULL, process_group=0)
    yield f"git://{NODE_ADDRESS}:{port}/code", git("rev-parse", "--short", "v1")
    daemon.terminate()
    daemon.wait(10)


def test_mount_git_repo_clones_before_the_process_starts(
    sandbox: Sandbox, stack: str, git_image: str, repository: tuple[str, str]
) -> None:
    place, first = repository
    sandbox.config(stack, gitImage=git_image)
    up(
        sandbox,
        stack,
        f"""
script = "cat /code/main.py; echo x > /code/new && echo -written"
with Experiment("e") as e:
    for name, revision in (("latest", "main"), ("tagged", "v1"), ("short", "{first}")):
        p = e.new_process(name, command="sh", args=["-c", script])
        p.mount_git_repo("{place}", revision, "/code")
    e.new_process("missing", command="true").mount_git_repo("{place}", "no-such-branch", "/code")
""",
        code=1,
    )
    for path, text in (("latest", "two"), ("tagged", "one"), ("short", "one")):
        becomes(sandbox, stack, path, "completed")
        assert sandbox.symphony("logs", stack, path).out.splitlines()[0] == f"{text}-written"
        assert steps(sandbox, stack, path)["prepared"]["what"].startswith("clone-git-repo-")
    assert "exit 128" in becomes(sandbox, stack, "missing", "failed")["why"]
    prepared = broken(sandbox, stack, "missing", "prepared")
    assert any("no-such-branch" in line for line in prepared["more"])
    assert prepared["remedy"] == "Correct the repository or its revision"


@pytest.mark.usefixtures("own")
def test_a_node_port_is_reachable_from_outside(sandbox: Sandbox, stack: str, live: Live) -> None:
    sandbox.config(stack, expose="NodePort")
    up(sandbox, stack, SERVER, code=0)
    (service,) = live("services", stack)
    port = service["spec"]["ports"][0]["nodePort"]

    def page() -> str:
        connection = http.client.HTTPConnection(NODE_ADDRESS, port, timeout=5)
        try:
            connection.request("GET", "/")
            return connection.getresponse().read().decode()
        except OSError:
            return ""
        finally:
            connection.close()

    wait_for(lambda: page() == "hello from the pod\n", 30, "the page")
    exposed = steps(sandbox, stack, "web")["exposed"]
    assert exposed["what"] == f"page: NodePort {port}, on {NODE_ADDRESS}:{port} and every other node"


@pytest.mark.usefixtures("own")
def test_a_load_balancer_without_address_is_shown_as_pending(
    sandbox: Sandbox, stack: str, live: Live, kubectl: Callable[..., str]
) -> None:
    sandbox.config(stack, expose="LoadBalancer", sourceRanges="203.0.113.0/24")
    output = up(sandbox, stack, SERVER, code=0)
    assert "page: its LoadBalancer has no address yet" in output
    (service,) = live("services", stack)
    assert service["spec"]["loadBalancerSourceRanges"] == ["203.0.113.0/24"]
    assert sandbox.processes(stack)["web"]["why"] == "page: its LoadBalancer has no address yet"
    exposed = broken(sandbox, stack, "web", "exposed")
    assert exposed["what"] == "page: its LoadBalancer has no address yet"

    patch = '{"status":{"loadBalancer":{"ingress":[{"ip":"198.51.100.7"}]}}}'
    kubectl("-n", stack, "patch", "service", "page", "--subresource=status", "-p", patch)
    assert sandbox.processes(stack)["web"]["why"] == ""
    assert steps(sandbox, stack, "web")["exposed"]["what"] == "page: 198.51.100.7:8080"
