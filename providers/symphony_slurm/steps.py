"""Creates, diffs, reads, updates and deletes a process by writing requests for the supervisor."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from symphony import files
from symphony_dynamic.provider import REASON, Difference
from symphony_slurm import allocations, inputs
from symphony_slurm.folder import Folder, Wanted
from symphony_slurm.inputs import LAUNCHED, StepInputs
from symphony_slurm.observe import Condition, Queue, condition
from symphony_tmux import names, variables
from symphony_tmux.processes import launch_file
from symphony_tmux.processes.environment import Caller
from symphony_tmux.resource import changes

Props = Mapping[str, Any]
IDENTITY = inputs.REPLACED
inputs_of = inputs.step_inputs
# Seconds that `delete` waits for the end of a process after its grace period, and between two looks.
_END_TIMEOUT, _PERIOD = 15.0, 0.1


def repairs(news: Props, old_inputs: Props, queue: Queue) -> dict[str, Any]:
    """Return what `check` adds to the inputs of a step in the state: the reason to repair it, if any."""
    folder, path = Folder(str(old_inputs["place"])), str(old_inputs["path"])
    current = _condition(folder, path, folder.requested_starts().get(path, 0), queue)
    return {} if current.is_good else {REASON: current.reason}


def create(props: Props, queue: Queue) -> tuple[str, dict[str, Any]]:
    """Request the start, unless an interrupted run requested the same one and the process needs no repair."""
    step = inputs_of(props)
    folder = Folder(step.place)
    attempt = _last_attempt(folder, step.path)
    request = folder.request(step.path, attempt) if attempt else None
    kept = inputs.repeated_inputs(props, StepInputs)
    is_same = request is not None and request.digest == changes.digest(kept, LAUNCHED)
    if not is_same or not _condition(folder, step.path, attempt, queue).is_good:
        attempt = _request(folder, step, kept, attempt, queue)
    return f"{Path(step.place).name}/{step.path}", {**kept, **_outputs(folder, step, attempt)}


def diff(olds: Props, news: Props, queue: Queue) -> Difference:
    """Return the changes of the inputs, and `status` for a process that needs repair."""
    if replaced := tuple(name for name in IDENTITY if olds.get(name) != news.get(name)):
        return Difference(replaced, replaced)
    changed = changes.changes(olds, news, LAUNCHED)
    current = _condition(Folder(str(olds["place"])), str(olds["path"]), int(olds["attempt"]), queue)
    return Difference((*changed, *(() if current.is_good else ("status",))))


def read(props: Props, queue: Queue) -> dict[str, Any] | None:
    """Return the outputs; None if the process is lost."""
    folder, path = Folder(str(props["place"])), str(props["path"])
    if _condition(folder, path, int(props["attempt"]), queue).state == "lost":
        return None
    return {**props, "attempt": int(props["attempt"])}


def update(olds: Props, news: Props, queue: Queue) -> dict[str, Any]:
    """Request another start if the inputs or the state of the process need one; else record the inputs."""
    step = inputs_of(news)
    folder, attempt = Folder(step.place), int(olds["attempt"])
    kept = inputs.repeated_inputs(news, StepInputs)
    is_good = _condition(folder, step.path, attempt, queue).is_good
    if not is_good or changes.changes(olds, news, LAUNCHED):
        attempt = _request(folder, step, kept, max(attempt, _last_attempt(folder, step.path)), queue)
    return {**kept, **_outputs(folder, step, attempt)}


def delete(props: Props, queue: Queue) -> None:
    """Ask the supervisor to end the process, and wait for its end, at most its grace and _END_TIMEOUT."""
    folder, path = Folder(str(props["place"])), str(props["path"])
    folder.unwant(path)
    experiment = folder.experiment()
    deadline = time.monotonic() + (experiment.grace if experiment else 0) + _END_TIMEOUT
    while time.monotonic() < deadline and (record := folder.record(path)) is not None:
        job = queue.job(folder)
        has_ended = record.state in ("held", "ended", "lost")
        # A job that waits was requeued, which ended the process.
        if has_ended or job is None or job.number != record.job or job.is_waiting:
            break
        time.sleep(_PERIOD)
    for file in files.matching(folder.process(path), "*.sh"):
        with suppress(OSError):
            files.remove(file)


def _last_attempt(folder: Folder, path: str) -> int:
    """Return the number of the last start that was requested or made."""
    record = folder.record(path)
    return max(folder.requested_starts().get(path, 0), record.attempt if record else 0)


def _condition(folder: Folder, path: str, attempt: int, queue: Queue) -> Condition:
    return condition(folder, path, attempt, queue.job(folder))


def _request(folder: Folder, step: StepInputs, kept: Props, after: int, queue: Queue) -> int:
    """Write the launch files of the next attempt and request it, in a new job if none waits or runs."""
    code = step.unchanged_code()
    attempt = after + 1
    place = folder.process(step.path)
    files.own_folder(place)
    files.touch(place / "log")
    for file in files.matching(place, "*@*.sh"):
        file.unlink(missing_ok=True)
    sourced = [folder.services_link(step.path, attempt)]
    if step.secret_env:
        sourced.append(place / f"secrets@{attempt}.sh")
        variables.write(sourced[1], step.secret_env)
    marker = names.marker(step.owner, step.path, attempt)
    content = launch_file.content(step, marker, _caller(), sourced, place)
    files.create(folder.launch_file(step.path, attempt), content)
    # For commands that run beside the process, as `symphony exec` starts them.
    bare = msgspec.structs.replace(step, argv=(), script=())
    content = launch_file.content(bare, marker, _caller(), sourced, place)
    _shell, beside = folder.in_environment(step.path, attempt)
    files.create(Path(beside), content + b'exec "$@"\n')
    folder.want(
        Wanted(
            path=step.path,
            attempt=attempt,
            digest=changes.digest(kept, LAUNCHED),
            shell=launch_file.shell(step),
            policy=step.restart_policy,
            cwd=step.cwd,
            code=code,
            uses=step.uses,
        )
    )
    allocations.ensure_job(folder, queue)
    return attempt


def _caller() -> Caller:
    """Return the environment of the caller without CUDA_VISIBLE_DEVICES, which Slurm sets for each step."""
    caller = launch_file.caller()
    environ = {name: value for name, value in caller.environ.items() if name != b"CUDA_VISIBLE_DEVICES"}
    return replace(caller, environ=environ)


def _outputs(folder: Folder, step: StepInputs, attempt: int) -> dict[str, Any]:
    return {"attempt": attempt, "launched": time.time(), "log": str(folder.log(step.path))}
