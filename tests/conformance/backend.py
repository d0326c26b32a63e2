"""The interface of backends in the conformance suite, and the `symphony` commands common to all."""

from __future__ import annotations

import json
import re
import signal
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.sandbox import Ran, Sandbox, wait_for

PROBE = Path(__file__).with_name("probe.py")
# The beginning of every program: probe(e, "a", "bind=x") declares a process that runs probe.py.
PRELUDE = """
import os
source = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.py")).read()
def probe(owner, name, *words, **settings):
    process = owner.new_process(name, command=["python3", "-u", "-c", source], args=list(words), **settings)
    process.binds(*[word[5:] for word in words if word.startswith("bind=")])
    process.connects(*[word[6:] for word in words if word.startswith("reach=")])
    return process
"""


@dataclass(frozen=True)
class Snapshot:
    """One moment of an experiment: status, identity and service variables of every process."""

    statuses: Mapping[str, Mapping[str, Any]]
    identities: Mapping[str, str]
    services: Mapping[str, Mapping[str, str]]

    def same(self, other: Snapshot) -> set[str]:
        """Return the processes that have kept running since an earlier snapshot."""
        return {path for path, who in self.identities.items() if who == other.identities.get(path)}


class Backend(ABC):
    """One backend under test. What differs between backends is abstract; the rest is the command line."""

    name: str
    # Whether logs of earlier starts remain after a restart by `up`.
    remembers_starts = True
    # The factor by which everything may take longer than with local processes.
    patience = 1.0
    # The value of symphony:notify, whose lines `notified` returns.
    notify: str
    # The number of processes in a large experiment.
    crowd = 40

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        (sandbox.folder / "probe.py").write_text(PROBE.read_text())

    # Defined by each backend.

    @abstractmethod
    def settings(self, stack: str) -> Mapping[str, str]:
        """Return the configuration of a stack of this backend."""

    @abstractmethod
    def identities(self, stack: str) -> dict[str, list[str]]:
        """Return path -> identities of its live processes; a start by `up` or `restart` changes them."""

    @abstractmethod
    def requested_starts(self, stack: str) -> int:
        """Return how many processes the backend was told to start."""

    @abstractmethod
    def shares_fate(self, path: str, paths: set[str]) -> set[str]:
        """Return the processes, of these paths, that restart when this one restarts or goes."""

    @abstractmethod
    def kill(self, stack: str, path: str, number: signal.Signals) -> None:
        """Send a signal to the program of a process."""

    @abstractmethod
    def lose(self, stack: str, path: str) -> None:
        """Remove a running process as may happen in the backend: a closed window, a lost node."""

    @abstractmethod
    def vanish(self, stack: str) -> None:
        """Remove a whole experiment without symphony: kill the server, delete the namespace."""

    @abstractmethod
    def end_supervisor(self, stack: str) -> None:
        """Kill the supervisor of the experiment; return when it is gone. symphony starts another."""

    @abstractmethod
    def notified(self, stack: str) -> list[str]:
        """Return the lines that the command `notify` has written."""

    @abstractmethod
    def leftovers(self, stack: str) -> list[str]:
        """Return all that is left of an experiment in this backend: nothing, after `delete`."""

    @abstractmethod
    def arguments(self) -> str:
        """Return the command lines of everything that runs: no secret may be in them."""

    @abstractmethod
    def disguises(self, secret: str) -> list[str]:
        """Return the texts that would show a secret."""

    @abstractmethod
    def forget(self, stack: str) -> None:
        """Remove what a failed test left of an experiment, even if `delete` would not."""

    # The same for all backends.

    def up(self, stack: str, program: str, *, fails: bool = False, **config: str) -> Ran:
        """Run a program text as the experiment of a stack.

        fails: some process of it may fail. config: settings of the stack, such as patience="12".
        """
        self.prepare(stack, program, **config)
        ran = self.sandbox.symphony("up", stack, "-y", code=None if fails else 0, timeout=60 * self.patience)
        assert re.search(rf"^{re.escape(stack)}( is up| has completed)?: \d", ran.out, re.M), str(ran)
        return ran

    def prepare(self, stack: str, program: str, **config: str) -> list[str]:
        """Write program and configuration; return the command that would run them."""
        self.sandbox.write(PRELUDE + program)
        self.sandbox.config(stack, **{**self.settings(stack), **config})
        return [str(self.sandbox.program), "up", stack, "-y"]

    def delete(self, stack: str, code: int | None = 0) -> Ran:
        return self.sandbox.symphony("delete", stack, "-y", code=code, timeout=60 * self.patience)

    def statuses(self, stack: str) -> dict[str, dict[str, Any]]:
        return self.sandbox.processes(stack)

    def becomes(self, stack: str, path: str, state: str, seconds: float = 20) -> dict[str, Any]:
        """Wait until a process is in a state; return its status."""

        def in_state() -> Any:
            status = self.statuses(stack).get(path)
            return status if status is not None and status["state"] == state else None

        return wait_for(in_state, seconds * self.patience, f"{path} is {state}", pause=0.3)

    def lines(self, stack: str, *words: str) -> list[dict[str, Any]]:
        """Return the lines of `symphony logs --json`: path, text, time, ended."""
        out = self.sandbox.symphony("logs", stack, *words, "--json").out
        return [json.loads(line) for line in out.splitlines()]

    def reports(self, stack: str, path: str, kind: str) -> list[Any]:
        """Return the reports of one kind that the probe of a process printed, oldest first."""
        texts = [line["text"] for line in self.lines(stack, path) if not line["ended"]]
        return [json.loads(text[len(kind) + 1 :]) for text in texts if text.startswith(f"{kind} ")]

    def speaks(self, stack: str, path: str, kind: str, times: int = 1, seconds: float = 30) -> list[Any]:
        """Wait for a number of reports of one kind, and return them."""

        def enough_reports() -> Any:
            result = self.reports(stack, path, kind)
            return result if len(result) >= times else None

        return wait_for(enough_reports, seconds * self.patience, f"{path} reports {kind}", pause=0.3)

    def all_speak(self, stack: str, paths: Collection[str], kind: str) -> None:
        """Wait until each of several processes has printed a report of one kind."""

        def enough_reports() -> bool:
            reports = [line for line in self.lines(stack) if line["text"].startswith(f"{kind} ")]
            return {line["path"] for line in reports} >= {*paths}

        wait_for(enough_reports, 30 * self.patience, f"{', '.join(paths)} report {kind}", pause=0.3)

    def runs_again(self, stack: str, path: str, before: Mapping[str, list[str]]) -> bool:
        """Return whether a process runs and has started again since these identities."""
        # In tmux the identity stays and `restarts` grows; a new pod has another identity and no restarts.
        status, living = self.statuses(stack)[path], self.identities(stack).get(path)
        is_another = status["restarts"] > 0 or (living is not None and living != before[path])
        return status["state"] == "running" and is_another

    def snapshot(self, stack: str) -> Snapshot:
        """Return the current processes of an experiment; assert that none runs twice."""
        living = self.identities(stack)
        assert {path: who for path, who in living.items() if len(who) != 1} == {}
        values: dict[str, Mapping[str, str]] = {}
        for line in self.lines(stack):
            if line["text"].startswith("services "):
                values[line["path"]] = json.loads(line["text"].removeprefix("services "))
        return Snapshot(self.statuses(stack), {path: who[0] for path, who in living.items()}, values)
