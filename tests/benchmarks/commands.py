"""Rows of the commands that look into a running experiment: those in tmux have a time that they may take.

It goes for a machine on which the first row, Python with what any command needs of its library, takes 0.05 s.
Those on pods stand beside `kubectl`. `ssh`, and `visit` of pods, have no row: they last until a person ends
them.
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
from tests.benchmarks.timing import Row, alone, paired
from toolchain.kubernetes import cluster as one_machine
from toolchain.kubernetes.fixtures import in_use
from toolchain.kubernetes.layout import Layout

GOAL = 2
LOOK = 0.25
DEADLINE = 120
MEGABYTE = 1 << 20
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
    result = _tmux()
    return result if one_machine.impossible() else result + _kubernetes()


def _tmux() -> list[Row]:
    with project(PROGRAM) as ours:
        ours.symphony("up", "ours.a", "-y")
        file = _file(ours.folder)

        def ended() -> float:
            ours.symphony("up", "ours.b", "-y")
            return ours.symphony("delete", "ours.b", "-y")

        looks = (
            ("ls", "ls"),
            ("process", "process ours.a"),
            ("why", "why ours.a p-0"),
            ("logs -t 100", "logs ours.a p-0 -t 100"),
            ("exec true", "exec ours.a p-0 -- true"),
            ("scp of 1 MiB", f"scp ours.a {file} p-0:{file}.b"),
            ("visit -u", "visit ours.a s-0 -u"),
        )
        return [
            alone("this machine: python with its library", lambda: _call([sys.executable, "-c", LIBRARY])),
            *(
                alone(f"{what}, tmux", lambda words=words: ours.symphony(*words.split()), goal=LOOK)
                for what, words in looks
            ),
            paired("delete, tmux", ended, _destroyed(ours), against="pulumi destroy", goal=GOAL),
        ]


def _destroyed(ours: Project) -> Callable[[], float]:
    def once() -> float:
        ours.symphony("up", "ours.b", "-y")
        return ours.engine("destroy", "--stack", "ours.b", "--yes", "--skip-preview")

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


def _row(what: str, ours: Project, words: list[str], calls: list[list[str]]) -> Row:
    return paired(what, lambda: ours.symphony(*words), _calls(*calls), against="kubectl + python", goal=None)


def _calls(*calls: list[str]) -> Callable[[], float]:
    """The time of these calls and of a start of Python."""
    return lambda: sum(_call(words) for words in (*calls, [sys.executable, "-c", "pass"]))


def _call(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, timeout=DEADLINE)
    return time.perf_counter() - began


def _file(folder: Path) -> Path:
    file = folder / "megabyte"
    file.write_bytes(b"x" * MEGABYTE)
    return file
