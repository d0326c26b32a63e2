"""Create, diff, read, update, delete of one process, over plain dicts; the supervisor does the work."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from symphony import files
from symphony.errors import UserError
from symphony_slurm import commands, inputs
from symphony_slurm.commands import Job
from symphony_slurm.folder import Folder, Wanted
from symphony_slurm.inputs import REASON, StepInputs
from symphony_slurm.observe import Condition, condition
from symphony_tmux import names, variables
from symphony_tmux.processes import launch_file
from symphony_tmux.processes.declared_code import CHANGED
from symphony_tmux.processes.environment import Caller

Props = Mapping[str, Any]
IDENTITY = inputs.REPLACED
inputs_of = inputs.step_inputs
# Seconds that the supervisor has to end a process beside its grace, and between two looks.
_ENDING, _LOOK = 15.0, 0.1
# One run of the provider asks Slurm once a second at most.
_asked: dict[str, tuple[float, dict[int, Job]]] = {}


def repairs(news: Props, old_inputs: Props) -> dict[str, Any]:
    """Return what `check` adds to the inputs of a step that the state has."""
    folder = Folder(str(old_inputs["folder"]))
    wish = folder.wanted().get(str(old_inputs["path"]), 0)
    now = condition(folder, str(old_inputs["path"]), wish, _job(folder))
    return {} if now.is_good else {REASON: now.reason}


def create(props: Props) -> tuple[str, dict[str, Any]]:
    """Ask for the start, unless an interrupted run asked for this very one."""
    wanted = inputs_of(props)
    folder = Folder(wanted.folder)
    attempt = _last_attempt(folder, wanted.path)
    wish = folder.wish(wanted.path, attempt) if attempt else None
    kept = inputs.kept(props, StepInputs)
    if (
        wish is None
        or wish.digest != inputs.digest(kept)
        or not _condition(folder, wanted.path, attempt).is_good
    ):
        attempt = _want(folder, wanted, kept, after=attempt)
    return f"{Path(wanted.folder).name}/{wanted.path}", {**kept, **_outputs(folder, wanted, attempt)}


def diff(olds: Props, news: Props) -> tuple[list[str], list[str]]:
    """Return what the program changed, and whether the process failed or is lost."""
    if replaced := [name for name in IDENTITY if olds.get(name) != news.get(name)]:
        return replaced, replaced
    changed = inputs.changes(olds, news)
    if (olds.get("waits_for") or []) != (news.get("waits_for") or []):
        changed.append("waits_for")
    if not _condition(Folder(str(olds["folder"])), str(olds["path"]), int(olds["attempt"])).is_good:
        changed.append("status")
    return changed, []


def read(props: Props) -> dict[str, Any] | None:
    """Return the outputs; None when the process is gone."""
    folder, path = Folder(str(props["folder"])), str(props["path"])
    if _condition(folder, path, int(props["attempt"])).state == "lost":
        return None
    return {**props, "attempt": int(props["attempt"])}


def update(olds: Props, news: Props) -> dict[str, Any]:
    """Ask for another start when it must be; else only take note of what changed."""
    wanted = inputs_of(news)
    folder, attempt = Folder(wanted.folder), int(olds["attempt"])
    kept = inputs.kept(news, StepInputs)
    is_good = _condition(folder, wanted.path, attempt).is_good
    if not is_good or inputs.changes(olds, news):
        attempt = _want(folder, wanted, kept, after=max(attempt, _last_attempt(folder, wanted.path)))
    return {**kept, **_outputs(folder, wanted, attempt)}


def delete(props: Props) -> None:
    """Have the supervisor end the process, and wait until it has."""
    folder, path = Folder(str(props["folder"])), str(props["path"])
    folder.unwant(path)
    experiment = folder.experiment()
    deadline = time.monotonic() + (experiment.grace if experiment else 0) + _ENDING
    while time.monotonic() < deadline and (record := folder.record(path)) is not None:
        job = _job(folder)
        if record.state in ("ended", "lost", "waiting", "blocked") or job is None or job.number != record.job:
            break
        time.sleep(_LOOK)
    for file in files.matching(folder.process(path), "*.sh"):
        with suppress(OSError):
            files.remove(file)


def _last_attempt(folder: Folder, path: str) -> int:
    """Return the number of the last start that was wanted or made."""
    record = folder.record(path)
    return max(folder.wanted().get(path, 0), record.attempt if record else 0)


def _condition(folder: Folder, path: str, attempt: int) -> Condition:
    return condition(folder, path, attempt, _job(folder))


def _job(folder: Folder) -> Job | None:
    """Return the job of an experiment, as Slurm told a moment ago."""
    experiment, submitted = folder.experiment(), folder.job()
    if experiment is None or submitted is None:
        return None
    moment, jobs = _asked.get(experiment.configuration, (0.0, {}))
    if time.monotonic() - moment > 1 or submitted.number not in jobs:
        jobs = commands.jobs(experiment.configuration)
        _asked[experiment.configuration] = (time.monotonic(), jobs)
    return jobs.get(submitted.number)


def _want(folder: Folder, wanted: StepInputs, kept: Props, after: int) -> int:
    """Write the launch file of the next attempt, and ask for it."""
    code = wanted.declared_code
    if code is not None and code.has_changed():
        what = f"{CHANGED}: {', '.join(code.texts)}"
        raise UserError(what, where=wanted.path, remedy="Run `symphony up` again")
    attempt = after + 1
    place = folder.process(wanted.path)
    files.own_folder(place)
    files.touch(place / "log")
    for file in files.matching(place, "*@*.sh"):
        file.unlink(missing_ok=True)
    secrets = place / f"secrets@{attempt}.sh"
    if wanted.secret_env:
        variables.write(secrets, wanted.secret_env)
    files.create(folder.launch_file(wanted.path, attempt), launch(folder, wanted, attempt))
    folder.want(
        Wanted(
            path=wanted.path,
            attempt=attempt,
            digest=inputs.digest(kept),
            shell=launch_file.shell(wanted),
            policy=wanted.restart_policy,
            waits_for=wanted.waits_for,
            cwd=wanted.cwd,
        )
    )
    return attempt


def launch(folder: Folder, wanted: StepInputs, attempt: int) -> bytes:
    """Return the launch file of an attempt; the supervisor writes the file of services before it starts."""
    place = folder.process(wanted.path)
    secrets = place / f"secrets@{attempt}.sh"
    sourced = [place / f"services@{attempt}.sh", *([secrets] if secrets.exists() else [])]
    marker = names.marker(wanted.owner, wanted.path, attempt)
    return launch_file.content(wanted, marker, _caller(), sourced, place)


def _caller() -> Caller:
    """Return the caller without what Slurm says in every step, and may have said to the caller as well."""
    caller = launch_file.caller()
    own = {name: value for name, value in caller.environ.items() if name != b"CUDA_VISIBLE_DEVICES"}
    return replace(caller, environ=own)


def _outputs(folder: Folder, wanted: StepInputs, attempt: int) -> dict[str, Any]:
    return {"attempt": attempt, "launched": time.time(), "log": str(folder.log(wanted.path))}
