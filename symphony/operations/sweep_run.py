"""The runner of a sweep: runs its trials, a limited number at once, and resumes after it was killed.

The state of a trial is written first. A runner that is killed leaves `starting`, which the next one starts
again: an `up` adopts the processes that an interrupted one has started.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from symphony.engine.state import locks
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError
from symphony.operations import kept_code, runs, stacks, sweep
from symphony.operations.process import duration
from symphony.operations.sweep import Sweep, Trial
from symphony.operations.wait import TIMED_OUT, wait
from symphony.supervision import notify

_LOOK = 0.5
# More engines at once make each other slow.
_ENGINES = 2
_TRIES = 3
# The failed trials that the command of symphony:notify is told of.
_LINES = 20


class Runner:
    """The runner of one sweep.

    Args:
        name: The sweep.
        tell: Prints a line.
    """

    def __init__(self, name: StackName, tell: Callable[[str], None]) -> None:
        self._name = name
        self._tell = tell
        self._jobs: dict[int, subprocess.Popen[str]] = {}
        self._tries: dict[int, int] = {}

    def run(self) -> None:
        """Run until every trial has ended and its processes are gone."""
        while True:
            now = self._read()
            for trial in now.trials:
                self._step(now, trial)
            now = self._read()
            if now.has_ended and all(trial.is_cleared or not trial.started for trial in now.trials):
                self._tell(f"{now.name}: {now.summary}")
                self._notify(now)
                return
            time.sleep(_LOOK)

    def _notify(self, now: Sweep) -> None:
        """Run the command of symphony:notify, once for each end."""
        command, ended = sweep.notify_of(now), max((trial.ended for trial in now.trials), default=0)
        if not command or ended <= now.told:
            return
        with sweep.changing(self._name) as recorded:
            recorded.told = ended
        failed = [trial for trial in now.trials if trial.state == "failed"]
        first = min(trial.started for trial in now.trials if trial.ended > now.told)
        variables = {
            "NAME": now.name,
            "STATE": "failed" if failed else "completed",
            "EXIT": str(int(bool(failed))),
            "SECONDS": str(round(ended - first)),
            "WHY": now.summary,
        }
        lines = [f"{now.cell(trial).stack} failed: {trial.why}   {_values(trial)}" for trial in failed]
        notify(command, variables, lines[-_LINES:], now.code)

    def _read(self) -> Sweep:
        now = sweep.read(self._name)
        if now is None:
            raise SymphonyError(f"the sweep {self._name.stack} was removed")
        return now

    def _step(self, now: Sweep, trial: Trial) -> None:
        job = self._jobs.get(trial.number)
        if job is not None and job.poll() is None:
            return
        self._jobs.pop(trial.number, None)
        match trial.state:
            case "waiting":
                active = sum(1 for other in self._read().trials if other.state in ("starting", "running"))
                if active < now.at_most and len(self._jobs) < _ENGINES:
                    self._change(trial, state="starting", started=time.time())
                    self._up(now, trial)
            case "starting":
                self._started(now, trial, job)
            case "running":
                self._look(now, trial)
            case _ if trial.started and not trial.is_cleared:
                self._clear(now, trial)
            case _:
                pass

    def _started(self, now: Sweep, trial: Trial, job: subprocess.Popen[str] | None) -> None:
        """Note how an `up` ended; the runner before this one may have been killed in it."""
        if job is None:
            if len(self._jobs) < _ENGINES:
                self._up(now, trial)
            return
        said: list[str] = job.stderr.read().strip().splitlines() if job.stderr else []
        cell = stacks.read(now.cell(trial))
        if cell.recorded is not None and job.returncode in (0, 1):
            self._change(trial, state="running")
            if run := runs.last(cell.name):
                # The further trials run the images of the first one.
                kept_code.set_images(now.code, run.images)
            self._tell(f"{cell.display_name} runs   {_values(trial)}")
            return
        why = said[-1].removeprefix("symphony: ") if said else f"`symphony up` ended with {job.returncode}"
        self._tries[trial.number] = self._tries.get(trial.number, 0) + 1
        if job.returncode == 2 or self._tries[trial.number] >= _TRIES:
            self._end(now, trial, "failed", why)

    def _look(self, now: Sweep, trial: Trial) -> None:
        cell = stacks.read(now.cell(trial))
        if cell.recorded is None:
            self._end(now, trial, "failed", "it was deleted")
            return
        late = now.stop_after is not None and time.time() - trial.started > now.stop_after
        try:
            statuses, code = wait(cell, timeout=0)
        except SymphonyError as error:
            if late:
                self._end(now, trial, "failed", error.what)
            # Else its backend may answer again.
            return
        if code != TIMED_OUT:
            self._end(
                now, trial, "failed" if code else "completed", runs.trouble_of(statuses) if code else ""
            )
        elif late:
            why = f"stopped at its time limit of {duration(now.stop_after or 0)}"
            runs.set_ending(cell.name, why)
            self._end(now, trial, "failed", why)

    def _end(self, now: Sweep, trial: Trial, state: str, why: str) -> None:
        self._change(trial, state=state, ended=time.time(), why=why)
        took = duration(time.time() - trial.started)
        self._tell(
            f"{now.cell(trial).stack} {state} after {took}{f': {why}' if why else ''}   {_values(trial)}"
        )

    def _clear(self, now: Sweep, trial: Trial) -> None:
        """Delete the stack of a trial that has ended; its run stays."""
        cell = now.cell(trial)
        known = stacks.read(cell)
        if known.recorded is None and not locks.read(cell.project, cell.stack):
            self._change(trial, is_cleared=True)
        elif len(self._jobs) < _ENGINES:
            self._spawn(now, trial, "delete", str(cell), "-y")

    def _up(self, now: Sweep, trial: Trial) -> None:
        sweep.cell_target(now, trial)
        self._spawn(now, trial, "up", now.cell(trial).stack, "-y", "--json")

    def _spawn(self, now: Sweep, trial: Trial, *words: str) -> None:
        self._jobs[trial.number] = subprocess.Popen(
            [sys.executable, "-m", "symphony.cli.main", *words],
            cwd=now.code,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def _change(self, trial: Trial, **fields: object) -> None:
        with sweep.changing(self._name) as now, suppress(StopIteration):
            recorded = next(other for other in now.trials if other.number == trial.number)
            for name, fact in fields.items():
                setattr(recorded, name, fact)


def _values(trial: Trial) -> str:
    return " ".join(f"{name}={value}" for name, value in trial.values.items())
