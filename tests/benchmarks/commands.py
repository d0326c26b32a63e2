"""Rows of the commands that look into a running experiment, each beside the call that does its I/O.

The other side is that call and a start of Python: a bare one, and for tmux, whose calls take 2 ms, also one
with what our commands need of Python's own library. `ssh`, and `visit` of pods, have no row: they last until
a person ends them.
"""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.clusters import add_plugin, configure
from tests.benchmarks.projects import Project, project
from tests.benchmarks.timing import Row, paired
from toolchain.kubernetes import cluster as one_machine
from toolchain.kubernetes.fixtures import in_use
from toolchain.kubernetes.layout import Layout

GOAL = 2
DEADLINE = 120
MEGABYTE = 1 << 20
BARE = "pass"
LIBRARY = "import dataclasses, json, pathlib, re, subprocess, typing"
PROGRAM = """
from symphony import Experiment
with Experiment() as experiment:
    for number in range(3):
        talk = "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done; exec sleep 100000"
        process = experiment.new_process(f"p-{number}", command="sh", args=["-c", talk])
        process.binds(f"s-{number}")
"""


def rows() -> list[Row]:
    """The commands in tmux, and on a cluster where one can be had."""
    found = _tmux()
    return found if one_machine.impossible() else found + _kubernetes()


def _tmux() -> list[Row]:
    with project(PROGRAM) as ours:
        ours.symphony("up", "ours.a", "-y")
        (socket,) = (ours.folder / "home/tmux").glob("*.sock")
        log = next((ours.folder / "home").rglob("processes/p-0/log"))
        windows = ["tmux", "-S", str(socket), "list-panes", "-a"]
        file = _file(ours.folder)

        def ended() -> float:
            ours.symphony("up", "ours.b", "-y")
            return ours.symphony("delete", "ours.b", "-y")

        looks = (
            ("ls", ["ls"], [windows]),
            ("process", ["process", "ours.a"], [windows]),
            ("why", ["why", "ours.a", "p-0"], [windows]),
            ("logs -t 100", ["logs", "ours.a", "p-0", "-t", "100"], [["tail", "-n", "100", str(log)]]),
            ("exec true", ["exec", "ours.a", "p-0", "--", "true"], [windows, ["true"]]),
            ("scp of 1 MiB", ["scp", "ours.a", str(file), f"p-0:{file}.b"], [["cp", str(file), f"{file}.c"]]),
            ("visit -u", ["visit", "ours.a", "s-0", "-u"], [windows]),
        )
        return [
            *(_row(f"{what}, tmux", ours, words, calls) for what, words, calls in looks),
            *(
                _row(f"{what}, tmux", ours, words, calls, start=LIBRARY, named="python with its library")
                for what, words, calls in looks
            ),
            paired(
                "delete, tmux",
                ended,
                _kill_session(ours.folder),
                against="tmux kill-session + python",
                goal=GOAL,
            ),
            paired("delete, tmux", ended, _destroyed(ours), against="pulumi destroy", goal=GOAL),
        ]


def _destroyed(ours: Project) -> Callable[[], float]:
    def once() -> float:
        ours.symphony("up", "ours.b", "-y")
        return ours.engine("destroy", "--stack", "ours.b", "--yes", "--skip-preview")

    return once


def _kill_session(folder: Path) -> Callable[[], float]:
    tmux = ["tmux", "-S", str(folder / "other.sock")]

    def once() -> float:
        _call([*tmux, "-f", "/dev/null", "new-session", "-d", "-s", "three", "sleep 100000"])
        return _calls([*tmux, "kill-session", "-t", "three"])()

    return once


def _kubernetes() -> list[Row]:
    with in_use(Layout.default()) as cluster, project(PROGRAM) as ours:
        add_plugin(ours)
        namespace, _ = (
            configure(ours, stack, cluster, cluster.shell_image) for stack in ("ours.a", "ours.b")
        )
        ours.symphony("up", "ours.a", "-y")
        here = [cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", "-n", namespace]
        file = _file(ours.folder)

        def ended() -> float:
            ours.symphony("up", "ours.b", "-y")
            return ours.symphony("delete", "ours.b", "-y")

        def emptied() -> float:
            name = f"bench-{uuid.uuid4().hex[:8]}"
            _call([*here[:2], "create", "namespace", name])
            for number in range(3):
                words = ["run", f"p-{number}", f"--image={cluster.shell_image}", "--", "sleep", "100000"]
                _call([*here[:2], "-n", name, *words])
            _call([*here[:2], "-n", name, "wait", "--for=condition=Ready", "pods", "--all", "--timeout=60s"])
            # As symphony's here, without a grace for the pods.
            pods = ["-n", name, "delete", "pods", "--all", "--grace-period=0", "--force"]
            return _calls([*here[:2], *pods], [*here[:2], "delete", "namespace", name])()

        looks = (
            ("ls", ["ls"], "get pods"),
            ("process", ["process", "ours.a"], "get pods"),
            ("why", ["why", "ours.a", "p-0"], "describe pod p-0"),
            ("logs -t 100", ["logs", "ours.a", "p-0", "-t", "100"], "logs p-0 --tail=100"),
            ("exec true", ["exec", "ours.a", "p-0", "--", "true"], "exec p-0 -- true"),
            ("scp of 1 MiB", ["scp", "ours.a", str(file), "p-0:/tmp/there"], f"cp {file} p-0:/tmp/here"),
        )
        return [
            *(_row(f"{what}, pods", ours, words, [[*here, *call.split()]]) for what, words, call in looks),
            paired("delete, pods", ended, emptied, against="kubectl delete namespace + python", goal=GOAL),
        ]


def _row(
    what: str,
    ours: Project,
    words: list[str],
    calls: list[list[str]],
    *,
    start: str = BARE,
    named: str = "python",
) -> Row:
    against = "kubectl" if "kubectl" in calls[0][0] else " and ".join(call[0] for call in calls)
    return paired(
        what,
        lambda: ours.symphony(*words),
        _calls(*calls, start=start),
        against=f"{against} + {named}",
        goal=GOAL,
    )


def _calls(*calls: list[str], start: str = BARE) -> Callable[[], float]:
    """The time of these calls and of a start of Python."""
    return lambda: sum(_call(words) for words in (*calls, [sys.executable, "-c", start]))


def _call(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, timeout=DEADLINE)
    return time.perf_counter() - began


def _file(folder: Path) -> Path:
    file = folder / "megabyte"
    file.write_bytes(b"x" * MEGABYTE)
    return file
