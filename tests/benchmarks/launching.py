"""Rows of launching: against the floor of the engine, and against the launchers people know."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from symphony_tmux.processes import process_table, trees
from tests.benchmarks.projects import OURS, TREE, project
from tests.benchmarks.timing import Row, paired

COUNT = 100
PEERS = Path(".venv-bench/bin").absolute()
PATIENCE = 120.0
TO_END = 15.0


def rows() -> list[Row]:
    """Cold launches of 100 processes, and a run that changes nothing."""
    with project(OURS.format(count=COUNT)) as ours, project(TREE.format(count=COUNT)) as floor:
        numbers = itertools.count()

        def cold() -> float:
            stack = f"ours.cold{next(numbers)}"
            took = ours.symphony("up", stack, "-y")
            ours.symphony("delete", stack, "-y")
            return took

        def engine() -> float:
            return floor.cold(f"floor{next(numbers)}")

        result = [
            paired(
                "up of 100 processes, cold", cold, engine, against="engine: that tree of no-ops", goal=1.3
            ),
            paired("up of 100 processes, cold", cold, _tmuxp, against="tmuxp load, 100 windows", goal=0.5),
            paired("up of 100 processes, cold", cold, _honcho, against="honcho start", goal=None),
            paired("up of 100 processes, cold", cold, _supervisord, against="supervisord", goal=None),
        ]
        ours.symphony("up", "ours.warm", "-y")
        floor.cold("warm")
        result.append(
            paired(
                "up of 100 processes, no change",
                lambda: ours.symphony("up", "ours.warm", "-y"),
                lambda: floor.engine("preview", "--stack", "warm"),
                against="engine: preview of that tree of no-ops",
                goal=1.2,
            )
        )
        return result


def _tmuxp() -> float:
    with tempfile.TemporaryDirectory() as folder:
        file, socket = Path(folder, "bench.yaml"), Path(folder, "socket")
        windows = "".join(f"  - window_name: w{n}\n    panes:\n      - sleep 100000\n" for n in range(COUNT))
        file.write_text(f"session_name: bench\nwindows:\n{windows}")
        environment = {name: value for name, value in os.environ.items() if name != "TMUX"}
        began = time.perf_counter()
        subprocess.run(
            [PEERS / "tmuxp", "load", "-d", "-y", "-S", socket, file],
            env=environment,
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )
        took = time.perf_counter() - began
        subprocess.run([shutil.which("tmux") or "tmux", "-S", socket, "kill-server"], check=True, timeout=30)
        return took


def _honcho() -> float:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Procfile").write_text("".join(f"w{n}: sleep 100000\n" for n in range(COUNT)))
        return _until_all_run([str(PEERS / "honcho"), "start"], folder, lambda line: "started (pid" in line)


def _supervisord() -> float:
    with tempfile.TemporaryDirectory() as folder:
        programs = "".join(
            f"[program:w{n}]\ncommand=sleep 100000\nstartsecs=0\nautorestart=false\n" for n in range(COUNT)
        )
        Path(folder, "supervisord.conf").write_text(
            f"[supervisord]\nnodaemon=true\nlogfile=/dev/stdout\nlogfile_maxbytes=0\npidfile={folder}/pid\n{programs}"
        )
        command = [str(PEERS / "supervisord"), "-c", "supervisord.conf"]
        return _until_all_run(command, folder, lambda line: "spawned:" in line)


def _until_all_run(command: list[str], folder: str, counts: Callable[[str], bool]) -> float:
    """Start a launcher, wait until it says of all that they run, and end it.

    honcho now and then does not end when it is told to while it prints: whoever does not is ended with all it
    started.
    """
    began = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        patience = threading.Timer(PATIENCE, _end_tree, [process.pid])
        patience.start()
        started, took = 0, 0.0
        try:
            for line in process.stdout:
                started += counts(line)
                if started == COUNT:
                    break
            took = time.perf_counter() - began
            process.terminate()
            process.communicate(timeout=TO_END)
        except subprocess.TimeoutExpired:
            pass
        finally:
            patience.cancel()
            _end_tree(process.pid)
    if started != COUNT:
        raise RuntimeError(f"{command[0]} started {started} of {COUNT}")
    return took


def _end_tree(pid: int) -> None:
    """Kill a child of ours, if it still lives, and all that comes from it."""
    root = process_table.process(pid)
    if root is None or root.parent != os.getpid():
        return
    for each in trees.members(process_table.scan(), [root.identity], lambda _: False).values():
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)
