"""The runner of a sweep: runs its trials, a limited number at once, and resumes after it was killed.

It writes the state of a trial first. A runner that is killed leaves trials in the state `starting`, which the
next one starts again: an `up` adopts the processes that an interrupted one has started.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import IO

from symphony.engine.state import locks
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError
from symphony.operations import kept_code, runs, stacks, sweep
from symphony.operations.process import TIMED_OUT, wait
from symphony.operations.sweep import Sweep, Trial
from symphony.supervision import duration, notify

# Seconds between two looks at the trials.
_PERIOD = 0.5
# More engines at once slow each other down.
_ENGINES = 2
_TRIES = 3
# The maximum number of failed trials that the command of symphony:notify gets.
_LINES = 20


class Runner:
    """The runner of one sweep; it prints lines with `tell`."""

    def __init__(self, name: StackName, tell: Callable[[str], None]) -> None:
        self._name = name
        self._tell = tell
        # The running commands by the number of the trial, with the files of their standard error: a pipe
        # would block a program that prints much.
        self._jobs: dict[int, tuple[subprocess.Popen[bytes], IO[str]]] = {}
        self._tries: dict[int, int] = {}

    def run(self) -> None:
        """Run until every trial has ended and its processes are gone."""
        while True:
            current = self._read()
            for trial in _by_urgency(current.trials):
                self._step(current, trial)
            current = self._read()
            if current.has_ended and all(trial.is_cleared or not trial.started for trial in current.trials):
                self._tell(f"{current.name}: {current.summary}")
                self._notify(current)
                return
            time.sleep(_PERIOD)

    def _notify(self, current: Sweep) -> None:
        """Run the command of symphony:notify, once for each end."""
        command, ended = (
            sweep.notify_command(current),
            max((trial.ended for trial in current.trials), default=0),
        )
        if not command or ended <= current.notified_until:
            return
        with sweep.changing(self._name) as changed:
            changed.notified_until = ended
        failed = [trial for trial in current.trials if trial.state == "failed"]
        first = min(trial.started for trial in current.trials if trial.ended > current.notified_until)
        variables = {
            "NAME": current.name,
            "STATE": "failed" if failed else "completed",
            "EXIT": str(int(bool(failed))),
            "SECONDS": str(round(ended - first)),
            "WHY": current.summary,
        }
        lines = [
            f"{current.stack_of(trial).stack} failed: {trial.why}   {_values(trial)}" for trial in failed
        ]
        notify(command, variables, lines[-_LINES:], current.code)

    def _read(self) -> Sweep:
        current = sweep.read(self._name)
        if current is None:
            raise SymphonyError(f"the sweep {self._name.stack} was removed, so its runner ends")
        return current

    def _step(self, current: Sweep, trial: Trial) -> None:
        job = self._jobs.get(trial.number)
        if job is not None and job[0].poll() is None:
            return
        self._jobs.pop(trial.number, None)
        match trial.state:
            case "waiting":
                active = sum(1 for other in self._read().trials if other.state in ("starting", "running"))
                if active < current.at_most and len(self._jobs) < _ENGINES:
                    self._change(trial, state="starting", started=time.time())
                    self._up(current, trial)
            case "starting":
                self._record_up(current, trial, job)
            case "running":
                self._look(current, trial)
            case _ if trial.started and not trial.is_cleared:
                self._clear(current, trial)
            case _:
                pass

    def _record_up(
        self, current: Sweep, trial: Trial, job: tuple[subprocess.Popen[bytes], IO[str]] | None
    ) -> None:
        """Record the end of an `up`; without a job, run it again: it failed, or its runner was killed."""
        if job is None:
            if len(self._jobs) < _ENGINES:
                self._up(current, trial)
            return
        process, errors = job
        errors.seek(0)
        lines = errors.read().strip().splitlines()
        errors.close()
        stack = stacks.read(current.stack_of(trial))
        if stack.recorded is not None and process.returncode in (0, 1):
            self._change(trial, state="running")
            if run := runs.last(stack.name):
                # Further trials use the images of the first one.
                kept_code.set_images(current.code, run.images)
            self._tell(f"{stack.display_name} runs   {_values(trial)}")
            return
        self._tries[trial.number] = self._tries.get(trial.number, 0) + 1
        if process.returncode == 2 or self._tries[trial.number] >= _TRIES:
            why = lines[-1].removeprefix("symphony: ") if lines else ""
            self._record_end(
                current, trial, "failed", why or f"`symphony up` ended with {process.returncode}"
            )

    def _look(self, current: Sweep, trial: Trial) -> None:
        stack = stacks.read(current.stack_of(trial))
        if stack.recorded is None:
            self._record_end(current, trial, "failed", "it was deleted")
            return
        began = trial.began or trial.started
        is_late = current.stop_after is not None and time.time() - began > current.stop_after
        try:
            statuses, code = wait(stack, timeout=0)
        except SymphonyError as error:
            # Within the time limit, its backend may answer again.
            if is_late:
                self._record_end(current, trial, "failed", error.what)
            return
        if code == 0:
            self._record_end(current, trial, "completed", "")
        elif code != TIMED_OUT:
            self._record_end(current, trial, "failed", runs.trouble_of(statuses))
        elif not trial.began:
            if any(status.state != "waiting" for status in statuses):
                self._change(trial, began=time.time())
        elif is_late:
            why = f"stopped at its time limit of {duration(current.stop_after or 0)}"
            runs.set_ending(stack.name, why)
            self._record_end(current, trial, "failed", why)

    def _record_end(self, current: Sweep, trial: Trial, state: str, why: str) -> None:
        self._change(trial, state=state, ended=time.time(), why=why)
        reason = f": {why}" if why else ""
        took = duration(time.time() - trial.started)
        self._tell(f"{current.stack_of(trial).stack} {state} after {took}{reason}   {_values(trial)}")

    def _clear(self, current: Sweep, trial: Trial) -> None:
        """Delete the stack of a trial that has ended; its run stays."""
        name = current.stack_of(trial)
        if stacks.read(name).recorded is None and not locks.read(name.project, name.stack):
            self._change(trial, is_cleared=True)
        elif len(self._jobs) < _ENGINES:
            self._spawn(current, trial, "delete", str(name), "-y")

    def _up(self, current: Sweep, trial: Trial) -> None:
        # It writes the settings of the trial.
        sweep.select_trial(current, trial)
        self._spawn(current, trial, "up", current.stack_of(trial).stack, "-y", "--json")

    def _spawn(self, current: Sweep, trial: Trial, *words: str) -> None:
        errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        process = subprocess.Popen(
            [sys.executable, "-m", "symphony.cli.main", *words],
            cwd=current.code,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        self._jobs[trial.number] = process, errors

    def _change(self, trial: Trial, **fields: object) -> None:
        with sweep.changing(self._name) as current, suppress(StopIteration):
            changed = next(other for other in current.trials if other.number == trial.number)
            for name, value in fields.items():
                setattr(changed, name, value)


def _by_urgency(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials that run, then those to delete, then those to start.

    Otherwise the starts of short trials would take every engine, and deletions would wait until the end.
    """
    order = {"starting": 0, "running": 0, "waiting": 2}
    return sorted(trials, key=lambda trial: order.get(trial.state, 1))


def _values(trial: Trial) -> str:
    return " ".join(f"{name}={value}" for name, value in trial.values.items())
