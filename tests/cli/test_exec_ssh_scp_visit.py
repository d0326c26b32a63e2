"""`exec`, `ssh`, `scp` and `visit` on real tmux."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cli.support import has_no_control
from tests.sandbox import SYMPHONY, Sandbox, sandbox_in, wait_for
from tests.terminal import terminal

PROGRAM = """
import os
os.makedirs("place", exist_ok=True)
with Experiment(env={"HELLO": "wor ld", "EMPTY": ""}, inherit=["WANDB_*"]) as e:
    learner = e.new_process("learner", command="sleep", args=["3600"], start_dir="place")
    learner.binds("replay")
    learner.exposes({"tensorboard": %d})
    e.new_process_group("eval").new_process("agent-0", command="sleep", args=["3600"]).connects("replay")
    before = ["echo from the preamble", "export OF=preamble"]
    e.new_process("lines", cmds=["sleep 3600"], preamble_cmds=before)
    e.new_process("ended", command="true")
    # The program is two shells away.
    e.new_process("board", cmds=["cd .", "bash -c 'python serve.py & wait'"]).exposes("board", "later")
"""
SERVER = """
import os, signal, socket
server = socket.create_server(("127.0.0.1", int(os.environ["SYMPH_BOARD_PORT"])))
print("listens", flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A running experiment `rl` with an exposed service."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with sandbox_in(tmp_path_factory.mktemp("inside"), "inside") as made:
        (made.folder / "serve.py").write_text(SERVER)
        made.write(PROGRAM % port)
        made.symphony("up", "rl", "-y")
        made.environment["PORT_OF_TEST"] = str(port)
        yield made


@pytest.mark.thorough
def test_exec_has_the_environment_and_folder_of_the_process(sandbox: Sandbox) -> None:
    ran = sandbox.symphony(
        "exec", "learner", "--", "env", env={"WANDB_KEY": "k", "OTHER": "o", "PULUMI_ACCESS_TOKEN": "t"}
    )
    result = dict(line.split("=", 1) for line in ran.out.splitlines() if "=" in line)
    assert (result["HELLO"], result["EMPTY"], result["WANDB_KEY"]) == ("wor ld", "", "k")
    assert result["SYMPH_REPLAY_ADDR"] == f"127.0.0.1:{result['SYMPH_REPLAY_PORT']}"
    assert result["SYMPHONY_ID"].endswith("/learner/1")
    assert not {"OTHER", "PULUMI_ACCESS_TOKEN"} & set(result)
    folder = sandbox.symphony("exec", "learner", "--", "pwd").out.strip()
    assert folder == str(sandbox.folder / "place")


def test_exec_runs_the_preamble_first_and_keeps_arguments_apart(sandbox: Sandbox) -> None:
    ran = sandbox.symphony("exec", "lines", "--", "sh", "-c", 'echo "$OF $1"', "sh", "it's; exit 3")
    assert ran.out == "preamble it's; exit 3\n"
    assert ran.err == "from the preamble\n"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("learner", "--", "no-such-command"), 127, "no-such-command"),
        pytest.param(("learner", "--", "/etc/passwd"), 126, "cannot be run", marks=pytest.mark.thorough),
        (("learner", "--", "\x1b[31mred"), 127, "red"),
        (("rl", "learner", "sh", "x y"), 2, "symphony exec rl learner -- sh 'x y'"),
        pytest.param(
            ("learner", "ls", "-a"), 2, "symphony exec learner -- ls -a", marks=pytest.mark.thorough
        ),
        pytest.param(("learner", "--"), 2, "after --", marks=pytest.mark.thorough),
        pytest.param(("learner", "--", ""), 2, "exec needs a command to run", marks=pytest.mark.thorough),
        pytest.param(("rl", "e", "--", "true"), 2, "eval/agent-0", marks=pytest.mark.thorough),
        pytest.param(
            ("rl", "learner", "more", "--", "true"),
            2,
            "a process, or an experiment and a process",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_exec_errors_are_one_line(sandbox: Sandbox, words: tuple[str, ...], code: int, message: str) -> None:
    ran = sandbox.symphony("exec", *words, code=code)
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1
    assert has_no_control(ran.err)
    assert ran.out == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_to_exec_ends_the_command_and_its_children(sandbox: Sandbox, number: signal.Signals) -> None:
    script = "sleep 4321 & echo ready; wait"
    running = sandbox.start([str(SYMPHONY), "exec", "learner", "--", "sh", "-c", script])
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    tree = psutil.Process(running.pid).children(recursive=True)
    assert len(tree) == 2
    running.send_signal(number)
    running.wait(10)
    psutil.wait_procs(tree, 5)
    # A shell lets its background children ignore SIGINT.
    left = [each for each in tree if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    for each in left:
        each.kill()
    assert len(left) <= (number == signal.SIGINT)
    running.stdout.close()


def test_exec_on_a_terminal_has_its_size_and_exit_code(sandbox: Sandbox) -> None:
    with terminal(sandbox, [str(SYMPHONY), "exec", "learner", "--", "sh"], columns=90, rows=20) as screen:
        screen.shows("$" if os.getuid() else "#")
        screen.type("stty size; tty", "Enter")
        screen.shows("20 90")
        screen.resize(70, 15)
        screen.type("stty size", "Enter")
        screen.shows("15 70")
        screen.type("sleep 1000", "Enter")
        time.sleep(0.3)
        screen.type("C-c")
        screen.type("echo still $((40 + 2))", "Enter")
        screen.shows("still 42")
        screen.type("exit 5", "Enter")
        assert screen.ends() == 5


def test_ssh_shows_the_window_and_leaves_it_running(sandbox: Sandbox) -> None:
    with terminal(sandbox, [str(SYMPHONY), "ssh", "rl", "agent-0"]) as screen:
        shown = screen.shows("agent-0*")
        assert "eval:agent-0*" in shown
        screen.type("C-b", "d")
        assert screen.ends() == 0
    assert sandbox.processes("rl")["eval/agent-0"]["state"] == "running"


def test_ssh_within_the_server_switches_to_the_window(sandbox: Sandbox) -> None:
    with terminal(sandbox, [str(SYMPHONY), "ssh", "rl", "agent-0"]) as screen:
        screen.shows("agent-0*")
        # The user opens a window in this tmux, and runs `symphony ssh` for another process in it.
        command = f"env SYMPHONY_HOME={sandbox.home} {SYMPHONY} ssh rl learner; sleep 60"
        screen.type("C-b", ":")
        screen.shows("\n:")
        screen.type(f"new-window -c {sandbox.folder} '{command}'", "Enter")
        screen.shows("learner*")
        screen.type("C-b", "d")
        assert screen.ends() == 0


@pytest.mark.thorough
def test_ssh_inside_tmux_switches_the_client_and_does_not_nest(sandbox: Sandbox) -> None:
    own = ["tmux", "-S", str(sandbox.home.parent / "own.sock")]
    ours = ["tmux", "-S", str(sandbox.home / "tmux" / "default.sock")]

    def clients(of: list[str]) -> list[str]:
        return sandbox.run([*of, "list-clients", "-F", "#{session_name}"]).out.split()

    shell = [*own, "-f", "/dev/null", "new-session", "-s", "mine", "sh"]
    try:
        with terminal(sandbox, ["env", "-u", "TMUX", *shell]) as person:
            person.shows("[mine]")
            person.type(f"{SYMPHONY} ssh rl learner", "Enter")
            person.shows("learner*")
            assert (clients(ours), clients(own)) == (["rl"], [])
            person.type("C-b", "d")
            person.shows("ssh rl learner")
            assert clients(own) == ["mine"]
    finally:
        sandbox.run([*own, "kill-server"], code=None)


def test_ssh_without_a_terminal_is_one_line(sandbox: Sandbox) -> None:
    ran = sandbox.symphony("ssh", "rl", "learner", code=2)
    assert "needs a terminal" in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", "b"), "neither"),
        pytest.param(("learner:a", "learner:b"), "both", marks=pytest.mark.thorough),
        (("learner:nothing", "."), "no such file"),
        pytest.param(("Pulumi.yaml", "learner:no/such/place"), "no such folder", marks=pytest.mark.thorough),
        pytest.param(("", "learner:x"), "empty", marks=pytest.mark.thorough),
        pytest.param(("one",), "a SOURCE and a TARGET", marks=pytest.mark.thorough),
        (("--", "-oProxyCommand=touch x", "learner:x"), "no such file"),
        ((".", "learner:x"), "into itself"),
    ],
)
def test_scp_errors_are_one_line(sandbox: Sandbox, words: tuple[str, ...], message: str) -> None:
    ran = sandbox.symphony("scp", *words, code=2)
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1
    assert ran.out == ""
    assert not (sandbox.folder / "x").exists()


def test_visit_prints_the_url_and_opens_the_browser(sandbox: Sandbox, tmp_path: Path) -> None:
    wait_for(lambda: "listens" in sandbox.symphony("logs", "rl", "board").out, 10, "it listens")
    shown = {sandbox.symphony("visit", *words, "-u").out for words in (("rl", "board"), ("board",))}
    (url,) = shown
    assert url.startswith("http://127.0.0.1:")
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/opened\n')
    browser.chmod(0o755)
    assert sandbox.symphony("visit", "board", env={"BROWSER": str(browser)}).out == url
    assert wait_for(lambda: (tmp_path / "opened").exists(), 5, "the browser was started")
    assert (tmp_path / "opened").read_text() == url
    # The pid is that of the listening process, not of a shell around it.
    pid = sandbox.processes("rl")["board"]["pid"]
    assert "serve.py" in psutil.Process(pid).cmdline()


def test_visit_prints_no_url_if_nothing_or_another_program_listens(sandbox: Sandbox) -> None:
    ran = sandbox.symphony("visit", "rl", "later", "-u", code=1)
    assert (ran.out, "nothing listens" in ran.err) == ("", True)
    port = int(sandbox.environment["PORT_OF_TEST"])
    with socket.create_server(("127.0.0.1", port)):
        ran = sandbox.symphony("visit", "rl", "tensorboard", code=1)
    assert (ran.out, f"pid {os.getpid()}" in ran.err) == ("", True)


def test_visit_without_a_browser_prints_the_url(sandbox: Sandbox, tmp_path: Path) -> None:
    python = str(Path(sys.executable).parent)
    environment = {"BROWSER": "", "DISPLAY": None, "WAYLAND_DISPLAY": None, "PATH": python}
    ran = sandbox.symphony("visit", "board", code=1, env=environment)
    assert ran.out.startswith("http://127.0.0.1:")
    assert "no browser" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rl", "tensorbord"), "tensorboard"),
        pytest.param(("nothing",), "tensorboard", marks=pytest.mark.thorough),
        pytest.param(("rl", "a", "b"), "an EXPERIMENT and a SERVICE", marks=pytest.mark.thorough),
    ],
)
def test_visit_errors_are_one_line(sandbox: Sandbox, words: tuple[str, ...], message: str) -> None:
    ran = sandbox.symphony("visit", *words, "-u", code=2)
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1
