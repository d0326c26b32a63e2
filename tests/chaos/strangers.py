"""Another user of the machine tries each way to an experiment that runs: none has any effect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

from tests.chaos.trial import STACK, Trial, Try, first_processes

UID = 65534
# Prints as JSON what it got done; told: the home of symphony, and pids of supervisors, servers, processes.
INTRUDER = r"""
import ctypes, json, os, pathlib, resource, socket, subprocess, sys
# Its interpreter may be in a folder that only root may read: it starts as root.
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
home, pids = pathlib.Path(sys.argv[2]), [int(word) for word in sys.argv[3:]]
sock = home / "tmux" / "default.sock"
process = home / "experiments" / "rl" / "processes" / "p0"
def dial(path):
    socket.socket(socket.AF_UNIX).connect(str(path))
def tmux(*words):
    subprocess.run(["tmux", "-S", str(sock), *words], check=True, capture_output=True, timeout=10)
def trace(pid):
    if ctypes.CDLL(None, use_errno=True).ptrace(16, pid, 0, 0): raise OSError(ctypes.get_errno(), "ptrace")
def write(path, text="x"):
    with open(path, "a") as file: file.write(text)
tries = {
    "list home": lambda: os.listdir(home),
    "list state": lambda: os.listdir(home / "state"),
    "read state": lambda: (home / "state/.pulumi/stacks/sandbox/rl.json").read_bytes(),
    "read passphrase": lambda: (home / "passphrase").read_bytes(),
    "read log": lambda: (process / "log").read_bytes(),
    "write log": lambda: write(process / "log"),
    "write launch file": lambda: write(process / "launch.sh"),
    "write pipe": lambda: write(process / "pipe"),
    "write record": lambda: write(process / "record.json"),
    "list experiments": lambda: os.listdir(home / "experiments"),
    "make a stack": lambda: write(home / "state/.pulumi/stacks/sandbox/other.json"),
    "take the lock": lambda: write(home / "tmux/default.lock"),
    "remove the socket": lambda: sock.unlink(),
    "move the home": lambda: home.rename(home.with_name("moved")),
    "dial the socket": lambda: dial(sock),
    "tmux list": lambda: tmux("list-panes", "-a"),
    "tmux kill-server": lambda: tmux("kill-server"),
    "tmux run-shell": lambda: tmux("run-shell", "true"),
    **{f"kill -{n}": lambda n=n: [os.kill(p, n) for p in pids] for n in (0, 1, 9, 15, 19)},
    "read environment": lambda: [open(f"/proc/{p}/environ", "rb").read() for p in pids],
    "read memory": lambda: [open(f"/proc/{p}/mem", "rb").read(1) for p in pids],
    "enter its folder": lambda: os.listdir(f"/proc/{pids[0]}/cwd/state"),
    "its descriptors": lambda: os.listdir(f"/proc/{pids[0]}/fd"),
    "trace": lambda: trace(pids[0]),
    "renice": lambda: [os.setpriority(os.PRIO_PROCESS, p, 19) for p in pids],
    "limit": lambda: resource.prlimit(pids[0], 7, (1, 1)),
    "affinity": lambda: [os.sched_setaffinity(p, {0}) for p in pids],
}
done = {}
for name, attempt in tries.items():
    try:
        attempt()
        done[name] = "it could"
    except Exception as error:
        done[name] = ""
print(json.dumps(done))
"""


def strangers(trial: Trial) -> Iterator[Try]:
    """Thirty ways at once, each a try; then the experiment runs as before and is deleted."""
    assert not os.getuid(), "only root can become somebody else"
    trial.declare(first_processes())
    trial.run("up", STACK, "-y")
    before = trial.pids()
    pids = [*trial.sandbox.servers(), *(pid for tree in trial.sandbox.trees().values() for pid in tree)]
    command = [sys.executable, "-I", "-c", INTRUDER, str(UID), str(trial.sandbox.home), *map(str, pids)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    after = trial.judged("another user")
    for name, could in json.loads(done.stdout).items():
        result = Try(trial.kind, trial.seed, name, longest=after.longest, broken=[could] if could else [])
        if trial.pids() != before or not after.survived:
            result.broken.append(f"what ran does not any more: {after}")
        yield result
    trial.run("delete", STACK, "-y")
    assert (end := trial.judged("delete", deleted=True)).survived, str(end)
