"""Commands that reach into containers, on the real cluster: exec, ssh, scp, visit."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.backends.kubernetes.conftest import configured
from tests.sandbox import SYMPHONY, Sandbox, wait_for
from tests.terminal import terminal
from toolchain.kubernetes.fixtures import Access

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
Live = Callable[[str, str], list[dict[str, Any]]]

PROGRAM = """
with Experiment("e", env={"HELLO": "wor ld"}) as e:
    learner = e.new_process("learner", command="sleep", args=["1000"])
    learner.binds("replay")
    learner.exposes({"tensorboard": 6006})
    group = e.new_process_group("pool")
    for i in range(2):
        group.new_process(f"w{i}", command="sleep", args=["1000"])
    e.new_process("ended", command="sh", args=["-c", "exit 3"])
"""


@pytest.fixture(scope="module")
def rl(sandbox: Sandbox, cluster: Access, kubectl: Callable[..., str]) -> Iterator[str]:
    """Return the stack of an experiment that runs for all tests of this file."""
    with configured(sandbox, cluster, kubectl) as name:
        sandbox.write(PROGRAM)
        sandbox.symphony("up", name, "-y", code=None, timeout=120)
        yield name


def run_in_learner(sandbox: Sandbox, *words: str, **more: Any) -> str:
    return sandbox.symphony("exec", *words, **more).out


def commands(sandbox: Sandbox, rl: str) -> list[str]:
    """Return the command lines that run in the container of learner, except that of this check."""
    script = "for f in /proc/[0-9]*; do tr '\\0' ' ' <$f/cmdline; echo; done"
    result = run_in_learner(sandbox, rl, "learner", "--", "sh", "-c", script).splitlines()
    return [each for each in result if each and "SYMPHONY_EXEC" not in each and "cmdline" not in each]


def test_exec_passes_8_mb_in_and_out_at_the_same_time(sandbox: Sandbox, rl: str, tmp_path: Path) -> None:
    """A client that serves one direction at a time would deadlock."""
    (tmp_path / "in").write_bytes(content := os.urandom(8_000_000))
    with (tmp_path / "in").open("rb") as given:
        out = subprocess.run(
            [str(SYMPHONY), "exec", rl, "learner", "--", "cat"],
            cwd=sandbox.folder,
            env=sandbox.environment,
            stdin=given,
            capture_output=True,
            timeout=60,
            check=True,
        )
    assert out.stdout == content


@pytest.mark.parametrize(("command", "code"), [("head -c 1", 0), ("head -c 1; exit 3", 3)])
def test_exec_ends_with_a_command_that_does_not_read_all_of_its_input(
    sandbox: Sandbox, rl: str, tmp_path: Path, command: str, code: int
) -> None:
    """Kubernetes does not tell of that end: `yes | kubectl exec` hangs."""
    (tmp_path / "in").write_bytes(b"x" * 8_000_000)
    with (tmp_path / "in").open("rb") as given:
        words = ("exec", rl, "learner", "--", "sh", "-c", command)
        assert sandbox.symphony(*words, stdin=given, timeout=40, code=code).out == "x"
    assert not [line for line in commands(sandbox, rl) if "head" in line]


def test_exec_passes_input_that_is_read_late(sandbox: Sandbox, rl: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(bytes(8_000_000))
    with (tmp_path / "in").open("rb") as given:
        late = run_in_learner(sandbox, rl, "learner", "--", "sh", "-c", "sleep 3; wc -c", stdin=given)
    assert late.split() == ["8000000"]


def test_exec_and_scp_fail_for_an_ended_process(sandbox: Sandbox, rl: str) -> None:
    wait_for(lambda: sandbox.processes(rl)["ended"]["state"] == "failed", 30, "ended has ended", 0.5)
    ran = sandbox.symphony("exec", rl, "ended", "--", "true", code=1)
    assert "failed: exit 3" in ran.err
    assert len(ran.err.splitlines()) == 1
    ran = sandbox.symphony("scp", rl, "ended:/x", ".", code=1)
    assert "failed: exit 3" in ran.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_interrupting_exec_ends_the_remote_command(sandbox: Sandbox, rl: str, number: signal.Signals) -> None:
    script = "sleep 4321 & echo ready; sleep 4322"
    running = sandbox.start([str(SYMPHONY), "exec", rl, "learner", "--", "sh", "-c", script])
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    running.send_signal(number)
    assert running.wait(15) == 130
    running.stdout.close()
    assert not [each for each in commands(sandbox, rl) if "432" in each]


def test_exec_ends_the_remote_command_when_its_output_pipe_is_closed(sandbox: Sandbox, rl: str) -> None:
    command = f"{SYMPHONY} exec {rl} learner -- sh -c 'while echo y; do :; done' | head -1"
    assert sandbox.run(["sh", "-c", command]).out == "y\n"
    assert not [each for each in commands(sandbox, rl) if "while" in each]


def test_ssh_opens_a_terminal_of_the_right_size_and_returns_the_exit_code(sandbox: Sandbox, rl: str) -> None:
    with terminal(sandbox, [str(SYMPHONY), "ssh", rl, "learner"], columns=90, rows=20) as screen:
        screen.shows("#")
        screen.type("busybox stty size; tty", "Enter")
        screen.shows("20 90")
        screen.resize(70, 15)
        time.sleep(0.3)
        screen.type("busybox stty size", "Enter")
        screen.shows("15 70")
        screen.type("sleep 1000", "Enter")
        time.sleep(0.5)
        screen.type("C-c")
        screen.type("echo still $((40 + 2))", "Enter")
        screen.shows("still 42")
        screen.type("exit 5", "Enter")
        assert screen.ends() == 5


def test_exec_allocates_a_terminal_only_if_run_in_one(sandbox: Sandbox, rl: str) -> None:
    # The terminal exists before its size arrives.
    sized = 'until size=$(busybox stty size 2>/dev/null); [ "$size" ]; do sleep 0.1; done'
    script = f"test -t 0 && test -t 1 && {sized} && echo $size && read code && exit $code"
    command = [str(SYMPHONY), "exec", rl, "learner", "--", "sh", "-c", script]
    with terminal(sandbox, command, columns=77, rows=19) as screen:
        screen.shows("19 77")
        screen.type("9", "Enter")
        assert screen.ends() == 9
    piped = run_in_learner(sandbox, rl, "learner", "--", "sh", "-c", "test -t 0 || test -t 1 || echo none")
    assert piped == "none\n"


def test_scp_into_an_existing_folder_keeps_other_files_and_follows_no_link(
    sandbox: Sandbox, rl: str, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a").write_text("one")
    (tmp_path / "src" / ("long" * 40)).write_text("long name")
    prepare = "cd /tmp; mkdir src; ln -s /tmp/victim src/a; touch src/kept"
    run_in_learner(sandbox, rl, "learner", "--", "sh", "-c", prepare)
    sandbox.symphony("scp", rl, str(tmp_path / "src"), "learner:/tmp")
    assert run_in_learner(sandbox, rl, "learner", "--", "cat", "/tmp/src/a") == "one"
    listed = run_in_learner(sandbox, rl, "learner", "--", "sh", "-c", "ls -A /tmp /tmp/src").split()
    assert "victim" not in listed
    assert {"kept", "long" * 40} <= {*listed}


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (("learner:/no/such", "."), 2, "no such file or folder: /no/such"),
        (("big", "learner:/no/such/place"), 2, "no such folder: /no/such"),
        (("big", "learner:/no/"), 2, "no such folder"),
        (("big", "learner:/dev/shm/x"), 1, "No space left"),
        (("big", "learner:/proc/x"), 1, "failed in the container of learner"),
    ],
)
def test_a_failed_scp_reports_the_reason_in_one_line(
    sandbox: Sandbox, rl: str, words: tuple[str, str], code: int, reason: str
) -> None:
    with (sandbox.folder / "big").open("wb") as file:
        file.truncate(100_000_000)
    ran = sandbox.symphony("scp", rl, *words, code=code)
    assert reason in ran.err
    assert len(ran.err.splitlines()) == 1


def test_interrupting_scp_ends_the_remote_copy(sandbox: Sandbox, rl: str, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 30)
    run_in_learner(sandbox, rl, "learner", "--", "mkdir", "/tmp/h")
    copying = sandbox.start([str(SYMPHONY), "scp", rl, f"{tmp_path}/huge", "learner:/tmp/h/huge"])
    wait_for(lambda: run_in_learner(sandbox, rl, "learner", "--", "ls", "-A", "/tmp/h"), 20, "it has begun")
    copying.send_signal(signal.SIGINT)
    assert copying.wait(20) == 130
    assert not [each for each in commands(sandbox, rl) if "cat" in each or "/tmp/h" in each]


SERVE = "echo hello > /tmp/index.html; head -c 3000000 /dev/zero > /tmp/blob; httpd -p 6006 -h /tmp"


def fetch(url: str, name: str) -> int:
    with urllib.request.urlopen(f"{url}/{name}", timeout=20) as answer:
        return len(answer.read())


def test_visit_forwards_to_a_service_and_stops_when_interrupted(sandbox: Sandbox, rl: str) -> None:
    visiting = sandbox.start([str(SYMPHONY), "visit", rl, "-u"])
    assert visiting.stdout is not None
    assert visiting.stderr is not None
    url = visiting.stdout.readline().strip()
    port = int(url.rpartition(":")[2])
    assert url == f"http://127.0.0.1:{port}"
    assert "Ctrl-C stops it" in visiting.stderr.readline()
    with pytest.raises(OSError):
        fetch(url, "blob")
    assert "no program listens" in visiting.stderr.readline()
    run_in_learner(sandbox, rl, "learner", "--", "sh", "-c", SERVE)
    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda _: fetch(url, "blob"), range(32))) == {3_000_000}
    with socket.create_connection(("127.0.0.1", port), 10) as half:
        half.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
        half.shutdown(socket.SHUT_WR)
        assert half.makefile("rb").read().endswith(b"hello\n")
    # The port listens only on this machine.
    other = socket.gethostbyname(socket.gethostname())
    if not other.startswith("127."):
        with pytest.raises(OSError):
            socket.create_connection((other, port), 2).close()
    visiting.send_signal(signal.SIGINT)
    assert visiting.wait(10) == 130
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 2).close()
    visiting.stdout.close()
    visiting.stderr.close()


@pytest.mark.thorough
def test_visit_reports_a_lost_pod_and_reaches_its_successor(
    sandbox: Sandbox, stack: str, kubectl: Callable[..., str]
) -> None:
    sandbox.write(
        f'''
with Experiment("e") as e:
    p = e.new_process("p", command="sh", args=["-c", "{SERVE}; exec sleep 1000"])
    p.exposes({{"board": 6006}})
'''
    )
    sandbox.symphony("up", stack, "-y", timeout=120)
    visiting = sandbox.start([str(SYMPHONY), "visit", stack, "-u"])
    assert visiting.stdout is not None
    assert visiting.stderr is not None
    url = visiting.stdout.readline().strip()
    visiting.stderr.readline()

    def answers() -> int:
        try:
            return fetch(url, "index.html")
        except OSError:
            return 0

    wait_for(answers, 20, "it answers", 0.5)
    kubectl("-n", stack, "delete", "pod", "p", "--now")
    assert answers() == 0
    assert "no process serves board" in visiting.stderr.readline()
    sandbox.symphony("up", stack, "-y", timeout=120)
    wait_for(answers, 30, "its successor answers", 0.5)
    visiting.send_signal(signal.SIGINT)
    visiting.wait(10)
    visiting.stdout.close()
    visiting.stderr.close()
