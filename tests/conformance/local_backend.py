"""Backends of the conformance suite whose processes are on this machine, identified by pid and start time."""

from __future__ import annotations

import os
import signal

import psutil

from tests.conformance.backend import Backend


class LocalBackend(Backend):
    """Finds processes by the marker in their environment; in tmux a supervisor is the root of each tree."""

    notify = "sh -c 'echo notified $NAME $STATE $EXIT >>told'"

    def identities(self, stack: str) -> dict[str, list[str]]:
        result: dict[str, list[str]] = {}
        for name, pids in self.sandbox.trees().items():
            owner, _, path = name.partition("/")
            if owner == stack:
                # The root of a tree is the process whose parent is not in it.
                tops = [each for each in map(_process, pids) if each and each.ppid() not in pids]
                result[path] = [f"{each.pid} {each.create_time()}" for each in tops]
        return {path: tops for path, tops in result.items() if tops}

    def requested_starts(self, stack: str) -> int:
        return len(self.identities(stack))

    def shares_fate(self, path: str, paths: set[str]) -> set[str]:
        return {path} & paths

    def kill(self, stack: str, path: str, number: signal.Signals) -> None:
        top = int(self.identities(stack)[path][0].split()[0])
        program = next(iter(psutil.Process(top).children()), psutil.Process(top))
        program.send_signal(number)

    def notified(self, stack: str) -> list[str]:
        told = self.sandbox.folder / "told"
        return told.read_text().splitlines() if told.exists() else []

    def arguments(self) -> str:
        result = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
        return "\n".join(" ".join(words) for words in result)

    def disguises(self, secret: str) -> list[str]:
        return [secret]

    def forget(self, stack: str) -> None:
        """Do nothing: the sandbox ends remaining processes."""


def _process(pid: int) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        os.fspath(process.name())
    except psutil.Error:
        return None
    return process
