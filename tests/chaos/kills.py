"""Kill one part of a run, or of what it started, at a random moment of an up, a change and a delete."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.chaos.trial import STACK, Outcome, Trial

# The longest observed lifetime of each part in a command, from which moments are drawn.
_span: dict[tuple[str, str], float] = {}
# These outlive the command: if not killed during it, they are killed right after it.
_LASTING = ("supervisor", "tmux server")
VICTIMS: dict[str, Callable[[list[str]], bool]] = {
    "command line": lambda words: False,
    "engine": lambda words: words[0].rpartition("/")[2] == "pulumi",
    "program": lambda words: "symphony.engine.run.program_host" in words,
    "provider": lambda words: "symphony_dynamic.host" in words,
    "supervisor": lambda words: len(words) > 1 and words[1].startswith("tmux/supervise-"),
    "tmux server": lambda words: False,
}
GENTLE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def kills(
    trial: Trial, victim: str, signals: Sequence[signal.Signals] = (signal.SIGKILL,)
) -> Iterator[Outcome]:
    """Disturb three commands; after each, one plain run of the same command must repair everything."""
    for phase, verb in trial.phases():
        disturbance = _kill_victim(trial, verb, phase, victim, trial.random.choice(signals))
        if verb == "up":
            trial.run("up", STACK, "-y")
        else:
            ran = trial.run("delete", STACK, "-y", code=None)
            assert ran.code == 0 or "no experiment" in ran.err, str(ran)
        if disturbance:
            yield trial.judge(disturbance, deleted=verb == "delete")


def _kill_victim(trial: Trial, verb: str, phase: str, victim: str, number: signal.Signals) -> str:
    """Return what was killed and when, or '' if the command ended before."""
    share = trial.random.random()
    began = time.monotonic()
    with trial.sandbox.start(trial.command(verb), start_new_session=True) as process:
        found = _await_victim(trial, victim, process)
        seen = time.monotonic()
        key = (victim, phase)
        while found and process.poll() is None and time.monotonic() - seen < share * _span.get(key, 0.5):
            time.sleep(0.002)
        # Another process may have replaced it.
        pids = _pids(trial, victim, process)
        is_hit = bool(pids) and _send(trial.random.choice(pids), number)
        moment = time.monotonic() - began
        trial.finish(process, f"{phase} after {victim} was killed")
    if not is_hit or number != signal.SIGKILL:
        _span[key] = max(_span.get(key, 0.0), time.monotonic() - seen)
    if is_hit and process.returncode == 0 and victim not in _LASTING:
        outcome = trial.judge(f"{phase} ended with 0", deleted=verb == "delete")
        assert outcome.survived, str(outcome)
    return f"{victim} of {phase} got {number.name} after {moment:.2f} s" if is_hit else ""


def _await_victim(trial: Trial, victim: str, process: subprocess.Popen[str]) -> bool:
    """Wait for a victim; return False when the command ends without."""
    while not _pids(trial, victim, process):
        if process.poll() is not None:
            return False
        time.sleep(0.002)
    return True


def _pids(trial: Trial, victim: str, process: subprocess.Popen[str]) -> list[int]:
    if victim == "command line":
        return [process.pid] if process.poll() is None else []
    if victim == "tmux server":
        return trial.sandbox.servers()
    return [pid for pid in _pids_of_home(trial.sandbox.home) if VICTIMS[victim](_words(pid))]


def _pids_of_home(home: Path) -> Iterator[int]:
    needle = f"SYMPHONY_HOME={home}".encode()
    for folder in Path("/proc").glob("[1-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            # A supervisor has the environment of the tmux server, which does not identify it.
            if needle in variables or (folder / "cwd").readlink() == home:
                yield int(folder.name)
        except OSError:
            continue


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return [""]


def _send(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
