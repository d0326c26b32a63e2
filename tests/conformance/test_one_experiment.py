"""One experiment on every backend: services, groups, names, exits, logs, exec, scp, why, secrets."""

from __future__ import annotations

import re
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.backend import Backend
from tests.sandbox import Ran, wait_for

STACK = "whole"
# The longest name that fits after the name of the stack in a shared namespace.
LONGEST = 63 - len(f"{STACK}-")
LONG = "n" * LONGEST
GROUP = "g" * LONGEST
MANY = 100
CANARY = "SYMCANARY-0b5f1c"
# What has broken launchers before: quotes, new lines, a trailing ;, formats of tmux and of the shell.
HARD = [
    "plain",
    "",
    " two  spaces ",
    'it\'s "quoted" `tick` $HOME ${X} $(id)',
    "first\nsecond\n",
    "tab\tand\\backslash\\n",
    "ends;",
    ";",
    "#(id) #{pane_id} %1 !! ~ *",
    "-e --",
    "größe 漢字 🎼 \u0301",
    "\x1b]0;title\x07\x1b[31m",
    "\x01",
    "a=b=c",
    "x" * 20000,
]
# backend.PRELUDE, which goes before it, defines probe(), and probe.py carries out its words.
PROGRAM = f"""
HARD = {HARD!r}
with Experiment(secrets=[SECRET]) as e:
    everywhere = ["reach=" + name for name in ("alpha", "beta", "left", "right", "far")]
    probe(e, "server", "bind=alpha", "bind=beta", *everywhere)
    pair = e.new_process_group("pair")
    probe(pair, "left", "bind=left", "near=right", *everywhere)
    probe(pair, "right", "bind=right", "near=left", *everywhere)
    probe(e.new_process_group("{GROUP}"), "{LONG}", "bind=far", *everywhere)
    probe(e, "{LONG}", *everywhere)
    probe(e, "many", *["bind=s-%d" % i for i in range({MANY})], "bind={"s" * LONGEST}")
    probe(e, "visitor", *["reach=s-%d" % i for i in range({MANY})], "reach={"s" * LONGEST}")
    probe(e, "hard", *["say=" + text for text in HARD], *["show=HARD_%d" % i for i in range(len(HARD))],
          env={{"HARD_%d" % i: text for i, text in enumerate(HARD)}})
    probe(e, "holder", "secrets")
    probe(e, "counter", "count=50")
    for code in (0, 1, 7, 126, 127, 255):
        probe(e, "exit-%d" % code, "say=bye", "exit=%d" % code)
    for number in (9, 11, 15):
        probe(e, "signal-%d" % number, "signal=%d" % number)
    e.new_process("brief", command=["true"])
    e.new_process("cmds", cmds=["echo $GREETING from $(pwd)", "exec sleep 3600"],
                  preamble_cmds=["GREETING=hello"], start_dir="/tmp")
    probe(e, "talker", "chatter=0.2")
"""


@pytest.fixture(scope="module", autouse=True)
def whole(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bring the experiment up; the exit code of `up` says that some of it failed."""
    secret = tmp_path_factory.mktemp("s") / "key.txt"
    secret.write_text(CANARY)
    secret.chmod(0o644)
    ran = backend.up(STACK, f"SECRET = {str(secret)!r}\n{PROGRAM}", fails=True)
    try:
        yield f"{ran}"
        backend.delete(STACK)
        assert backend.leftovers(STACK) == []
    finally:
        backend.forget(STACK)


def run_in(backend: Backend, path: str, *words: str, **more: Any) -> Ran:
    return backend.sandbox.symphony("exec", STACK, path, "--", *words, **more)


EVERY = ("alpha", "beta", "left", "right", "far")
CONNECTORS = ("server", "pair/left", "pair/right", f"{GROUP}/{LONG}", LONG)


def test_every_process_reaches_every_service(backend: Backend) -> None:
    """Also a process its own service, and members of a group each other's."""
    for path in CONNECTORS:
        assert set(backend.speaks(STACK, path, "reached", len(EVERY))) == set(EVERY)


def test_members_of_a_group_run_on_the_same_machine(backend: Backend) -> None:
    """Each finds the other at its own machine's address."""
    assert backend.speaks(STACK, "pair/left", "near") == [["right", True]]
    assert backend.speaks(STACK, "pair/right", "near") == [["left", True]]


def test_every_process_sees_the_variables_of_every_service(backend: Backend) -> None:
    """Only a process that binds one gets its bind variable."""
    services = [*EVERY, *(f"s-{i}" for i in range(MANY)), "s" * LONGEST]
    seen = {path: backend.speaks(STACK, path, "services")[0] for path in ("server", "pair/left", "talker")}
    for variables in seen.values():
        for service in services:
            stem = "SYMPH_" + service.upper().replace("-", "_")
            host, port = variables[f"{stem}_HOST"], variables[f"{stem}_PORT"]
            assert variables[f"{stem}_ADDR"] == f"{host}:{port}"
            assert 0 < int(port) < 65536
    addresses = [seen["server"][name] for name in seen["server"] if name.endswith("_ADDR")]
    assert len(set(addresses)) == len(addresses) == len(services)
    binds = {name for name in seen["server"] if name.endswith("_BIND")}
    assert binds == {"SYMPH_ALPHA_BIND", "SYMPH_BETA_BIND"}
    without_binds = [{k: v for k, v in each.items() if not k.endswith("_BIND")} for each in seen.values()]
    assert without_binds[0] == without_binds[1] == without_binds[2]


def test_a_process_reaches_a_hundred_services(backend: Backend) -> None:
    reached = backend.speaks(STACK, "visitor", "reached", MANY + 1, seconds=40)
    assert set(reached) == {*(f"s-{i}" for i in range(MANY)), "s" * LONGEST}


def test_names_of_the_maximum_length_work(backend: Backend) -> None:
    statuses = backend.statuses(STACK)
    assert statuses[LONG]["state"] == statuses[f"{GROUP}/{LONG}"]["state"] == "running"
    assert (statuses[f"{GROUP}/{LONG}"]["group"], statuses[f"{GROUP}/{LONG}"]["name"]) == (GROUP, LONG)


def test_arguments_and_variables_arrive_unchanged(backend: Backend) -> None:
    assert backend.speaks(STACK, "hard", "said", len(HARD)) == HARD
    assert backend.speaks(STACK, "hard", "variable", len(HARD)) == HARD


def test_exit_codes_and_killing_signals_are_shown_in_status_and_log(backend: Backend) -> None:
    reasons = {f"exit-{code}": f"exit {code}" for code in (1, 7, 126, 127, 255)}
    killers = (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)
    reasons |= {f"signal-{int(number)}": number.name for number in killers}

    def failed() -> dict[str, dict[str, Any]] | None:
        statuses = backend.statuses(STACK)
        return statuses if {statuses[path]["state"] for path in reasons} == {"failed"} else None

    statuses = wait_for(failed, 20 * backend.patience, "all of them have failed", pause=0.3)
    ends = [(line["path"], line["text"]) for line in backend.lines(STACK) if line["ended"]]
    for path, reason in reasons.items():
        assert re.search(rf"\b{reason}\b", statuses[path]["why"])
        assert statuses[path]["ready"] is False
        (end,) = [text for ended, text in ends if ended == path]
        assert re.search(rf"\b{reason}\b", end)


def test_a_process_that_exits_with_0_is_completed(backend: Backend) -> None:
    assert backend.becomes(STACK, "exit-0", "completed")["why"] == ""
    assert backend.becomes(STACK, "brief", "completed")["since"] is not None


def test_process_and_ls_show_failures(backend: Backend, whole: str) -> None:
    backend.becomes(STACK, "exit-7", "failed")
    again = backend.sandbox.symphony("process", STACK).out
    assert any("exit-7" in line and "exit 7" in line for line in again.splitlines())
    listed = backend.sandbox.symphony("ls").out
    assert "failed" in listed


def test_logs_of_one_process_and_its_last_lines(backend: Backend) -> None:
    """The number of last lines counts for each process."""
    backend.speaks(STACK, "counter", "ready")
    out = backend.sandbox.symphony("logs", STACK, "counter").out
    assert [line for line in out.splitlines() if line.startswith("line ")] == [f"line {i}" for i in range(50)]
    texts = [line["text"] for line in backend.lines(STACK, "counter", "-t", "3")]
    assert texts[:2] == ["line 48", "line 49"]
    assert texts[2].startswith("ready ")
    assert backend.lines(STACK, "counter", "-t", "0") == []
    lines = backend.lines(STACK, "counter", "many", "-t", "1")
    assert sorted(line["path"] for line in lines) == ["counter", "many"]


def test_logs_of_a_failed_process_end_with_its_exit_code(backend: Backend) -> None:
    backend.becomes(STACK, "exit-7", "failed")
    out = backend.sandbox.symphony("logs", STACK, "exit-7").out.splitlines()
    assert out[-2:] == ['said "bye"', "ended: exit 7"]


def test_logs_of_a_group(backend: Backend) -> None:
    backend.speaks(STACK, "pair/left", "ready")
    backend.speaks(STACK, "pair/right", "ready")
    assert {line["path"] for line in backend.lines(STACK, "pair")} == {"pair/left", "pair/right"}
    out = backend.sandbox.symphony("logs", STACK, "pair").out.splitlines()
    assert {line.split(" | ")[0].strip() for line in out} == {"pair/left", "pair/right"}


def test_all_logs_are_merged_in_order_of_time(backend: Backend) -> None:
    backend.becomes(STACK, "brief", "completed")
    lines = backend.lines(STACK)
    assert {line["path"] for line in lines} == set(backend.statuses(STACK))
    times = [line["time"] for line in lines if line["time"] is not None]
    assert times == sorted(times)


def test_logs_since(backend: Backend) -> None:
    backend.speaks(STACK, "counter", "ready")
    wait_for(lambda: time.time() - backend.statuses(STACK)["counter"]["since"] > 4, 20, "time goes by")
    assert backend.lines(STACK, "counter", "-s", "2s") == []
    recent = backend.lines(STACK, "talker", "-s", "2s")
    assert 3 <= len(recent) <= 20
    assert len(backend.lines(STACK, "counter", "-s", "1h")) >= 51


def test_logs_follow(backend: Backend) -> None:
    """`-f` prints new lines as they come; `-t 1` only the last of the earlier lines."""
    words = [str(backend.sandbox.program), "logs", STACK, "talker", "-f", "-t", "1"]
    following = backend.sandbox.start(words)
    try:
        assert following.stdout is not None
        ticks = [int(following.stdout.readline().split()[1]) for _ in range(8)]
    finally:
        following.send_signal(signal.SIGINT)
        out, err = following.communicate(timeout=10)
    assert ticks == list(range(ticks[0], ticks[0] + 8))
    assert following.returncode == 130
    assert "Traceback" not in out + err


def test_logs_follow_ends_with_the_last_process(backend: Backend) -> None:
    followed = backend.sandbox.symphony("logs", STACK, "exit-1", "exit-0", "-f", timeout=20, code=1)
    assert "ended: exit 1" in followed.out


def test_exec_has_variables_streams_and_exit_code(backend: Backend, tmp_path: Path) -> None:
    address = backend.speaks(STACK, "pair/left", "services")[0]["SYMPH_ALPHA_ADDR"]
    (tmp_path / "in").write_text("said to it")
    script = 'echo "$SYMPH_ALPHA_ADDR"; cat; echo wrong >&2; exit 7'
    with (tmp_path / "in").open() as given:
        ran = run_in(backend, "pair/left", "sh", "-c", script, code=7, stdin=given)
    assert (ran.out, ran.err) == (f"{address}\nsaid to it", "wrong\n")
    assert run_in(backend, "talker", "echo", "a b", "--", "$HOME").out == "a b -- $HOME\n"
    run_in(backend, "talker", "sh", "-c", "kill -9 $$", code=137)
    run_in(backend, "talker", "no-such-command", code=127)


def test_scp_copies_files_and_folders_in_both_directions(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "src" / "sub").mkdir(parents=True)
    (tmp_path / "src" / "sub" / "a b").write_bytes(content := bytes(range(256)) * 999)
    (tmp_path / "src" / "run").write_text("echo it runs")
    (tmp_path / "src" / "run").chmod(0o755)
    remote = f"/tmp/symphony-{uuid.uuid4().hex}"
    try:
        backend.sandbox.symphony("scp", STACK, str(tmp_path / "src"), f"pair/left:{remote}")
        assert run_in(backend, "pair/left", "sh", f"{remote}/run").out == "it runs\n"
        backend.sandbox.symphony("scp", STACK, f"pair/left:{remote}", str(tmp_path / "back"))
        backend.sandbox.symphony("scp", STACK, f"pair/left:{remote}/run", str(tmp_path))
    finally:
        run_in(backend, "pair/left", "rm", "-r", remote)
    assert (tmp_path / "back" / "sub" / "a b").read_bytes() == content
    assert (tmp_path / "back" / "run").stat().st_mode & 0o111
    assert (tmp_path / "run").read_text() == "echo it runs"
    ran = backend.sandbox.symphony("scp", STACK, f"pair/left:{remote}", str(tmp_path / "gone"), code=2)
    assert "no such file or folder" in ran.err
    assert remote in ran.err


def test_why_shows_the_chain_of_running_and_failed_processes(backend: Backend) -> None:
    def chain(path: str) -> list[dict[str, Any]]:
        return backend.sandbox.symphony("why", STACK, path, "--json").json["links"]

    backend.becomes(STACK, "exit-7", "failed")
    well, badly = chain("pair/left"), chain("exit-7")
    for links in (well, badly):
        assert [each["step"] for each in links[:2]] == ["declared", "planned"]
        assert "__main__.py" in links[0]["what"]
    assert (well[-1]["step"], [each for each in well if each["broken"]]) == ("ready", [])
    assert [each["step"] for each in badly if each["broken"]] == [badly[-1]["step"]] == ["exit"]
    assert (badly[-1]["what"], badly[-1]["more"][-1]) == ("exit 7", 'said "bye"')
    assert f"symphony logs {STACK} exit-7" in badly[-1]["remedy"]


def test_secret_files_are_readable_by_processes_only(backend: Backend) -> None:
    ((name, mode, size, checksum),) = backend.speaks(STACK, "holder", "secret")
    assert (name, size, checksum) == ("key.txt", len(CANARY), sum(map(ord, CANARY)))
    assert mode & 0o400
    assert not mode & 0o337
    assert backend.speaks(STACK, "talker", "services")[0]["SYMPH_SECRETS_DIR"]


def test_secrets_are_in_no_state_or_command_line(backend: Backend) -> None:
    seen = backend.arguments()
    assert [text for text in backend.disguises(CANARY) if text in seen] == []
    state = backend.sandbox.home / "state"
    files = [file for file in state.rglob("*") if file.is_file()]
    assert len(files) > 3
    exported = backend.sandbox.pulumi("stack", "export", f"--stack={STACK}").out
    for text in backend.disguises(CANARY):
        assert [file for file in files if text.encode() in file.read_bytes()] == []
        assert text not in exported
    assert "key.txt" not in backend.sandbox.symphony("process", STACK).out


def test_cmds_run_after_the_preamble_in_start_dir(backend: Backend) -> None:
    wait_for(lambda: backend.lines(STACK, "cmds"), 20 * backend.patience, "it prints")
    assert [line["text"] for line in backend.lines(STACK, "cmds")] == ["hello from /tmp"]
