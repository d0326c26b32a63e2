"""Records the runs of experiments: a numbered folder for each `up` or `restart` that changed something.

A folder has run.json (user, times, git, settings, ends), plan.json, git.diff, the code, and the logs. A run
does not depend on its record: parts that cannot be written are listed as missing, and the run continues.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec

from symphony import files, paths
from symphony.backends import settings_reader
from symphony.backends.observe import LogLine, ProcessStatus
from symphony.engine.state import store
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError, UserError
from symphony.operations import git, kept_code, pod_logs, selected_stack, stacks
from symphony.plan.names import DECLARED, listed
from symphony.plan.problems import count
from symphony.supervision import duration

VERSION = 1  # of the file, for later readers; nothing checks it yet
# The parts that a record lacks if the program was a script or a plain `pulumi up` started the run.
NOT_KNOWN = "user, git, settings and code: a plain `pulumi up` started it"
_SCRIPT = "the code: a script started the run"
RECORD, PLAN, DIFF, CODE, LOGS = "run.json", "plan.json", "git.diff", "code", "logs"
_SECRET = re.compile(r"(?i)secret|token|passw|passphrase|key|credential|auth")
# The files of a log: what was printed, and when; `.1` is the part before the last rotation.
_LOG_FILES = ("log", "index", "log.1", "index.1")
_ENDED = ("completed", "failed", "lost", "stopped")


class Ending(msgspec.Struct, omit_defaults=True):
    """The state of a process when its run ended, or when it was last read."""

    state: str
    why: str = ""
    restarts: int = 0
    exit_code: int | None = None


class Run(msgspec.Struct, kw_only=True):
    """The record of a run.

    Attributes:
        changed: The changes of the plan, in words.
        ended: The time at which the next run, a deletion, or the end of its last process ended it.
        state: Why the run ended, or is about to end, in words.
        missing: The parts that the record lacks, with reasons.
        settings: The settings of the stack without secret ones, whose names are in `secret_settings`.
        code: The folder with the kept code, if it is kept.
        processes: path -> the state of each process at the end.
    """

    number: int
    started: datetime = datetime.fromtimestamp(0, UTC)
    user: str = ""
    git: git.Git | None = None
    changed: list[str] = []
    ended: datetime | None = None
    state: str = ""
    missing: list[str] = []
    version: int = VERSION
    stack: str = ""
    project: str = ""
    backend: str = ""
    command: str = "up"
    host: str = ""
    folder: str = ""
    settings: dict[str, Any] = {}
    secret_settings: list[str] = []
    parameters: dict[str, Any] = {}
    addresses: dict[str, str] = {}
    images: dict[str, str] = {}
    code: str = ""
    processes: dict[str, Ending] = {}

    @property
    def seconds(self) -> float:
        """The duration of the run until its end, or until now."""
        return ((self.ended or now()) - self.started).total_seconds()

    @property
    def keeps_code(self) -> bool:
        """Return whether the kept code still exists."""
        return bool(self.code) and Path(self.code).is_dir()

    @property
    def is_of_project(self) -> bool:
        """Return whether symphony started the run from a project, whose settings and program are known."""
        return not {NOT_KNOWN, _SCRIPT} & set(self.missing)

    @property
    def ending(self) -> str:
        """The end in words: `completed, 2h 11m`."""
        return f"{self.state}, {duration(self.seconds)}" if self.ended else self.state or "running"


def now() -> datetime:
    return datetime.now(UTC)


def folder_of(name: StackName) -> Path:
    """Return the folder with the runs of an experiment."""
    return paths.home() / "runs" / paths.store_id() / name.project / name.stack


def experiments() -> list[StackName]:
    """Return the experiments that have runs."""
    root = paths.home() / "runs" / paths.store_id()
    return sorted(StackName(*file.relative_to(root).parts) for file in files.matching(root, "*/*"))


def find(word: str | None) -> StackName:
    """Return the experiment with a name, including deleted experiments that have runs.

    Raises:
        UserError: No experiment or several match.
    """
    if word is None:
        with suppress(UserError):
            return stacks.find(None).name
    names, project = experiments(), stacks.current_project()
    own = [name for name in names if project in (None, name.project)]
    if word is None:
        own = [name for name in own if not selected_stack.is_trial(name)]
        if len(own) == 1:
            return own[0]
        remedy = (
            f"Name one of: {listed([*stacks.labels(own).values()])}" if own else "`symphony up` records a run"
        )
        raise UserError(
            "several experiments have runs, and none was named" if own else "no runs are recorded",
            remedy=remedy,
        )
    exact = [name for name in names if word in name.spellings]
    if len(exact) > 1:
        exact = [name for name in exact if name in own] or exact
    by_label = {label: name for name, label in stacks.labels(exact or own or names).items()}
    return exact[0] if len(exact) == 1 else by_label[stacks.match(word, by_label, "experiment with runs")]


def numbers(name: StackName) -> list[int]:
    """Return the numbers of the runs of an experiment, in order."""
    with suppress(FileNotFoundError), os.scandir(folder_of(name)) as entries:
        return sorted(int(entry.name) for entry in entries if entry.name.isdecimal())
    return []


def every(name: StackName, last: int | None = None) -> list[Run]:
    """Return the runs of an experiment in order, or only the last ones."""
    # One look-up of the folder for all: otherwise listing thousands of runs is slow.
    folder = folder_of(name)
    return [_read(name, number, f"{folder}/{number}") for number in numbers(name)[-last if last else None :]]


_record = msgspec.json.Decoder(Run)


def read(name: StackName, number: int) -> Run:
    """Return the record of a run, which says if it is damaged; raise UserError if there is no such run."""
    return _read(name, number, str(folder_of(name) / str(number)))


def _read(name: StackName, number: int, place: str) -> Run:
    try:
        return _record.decode(files.read_source(f"{place}/{RECORD}"))
    except OSError:
        missing = "no record was written"
    except ValueError as error:
        missing = f"its record is damaged: {error}"
    folder = Path(place)
    if not folder.is_dir():
        remedy = f"Known: {listed([*map(str, numbers(name))]) or 'none'}"
        raise UserError(f"{name.stack} has no run {number}", remedy=remedy)
    began = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
    return Run(
        number=number,
        stack=name.stack,
        project=name.project,
        started=began,
        state="unknown",
        missing=[missing],
    )


def plan_file(name: StackName, number: int) -> Mapping[str, Any]:
    """Return the `plan` of a run and what its program `declared`; empty if they are not kept."""
    with suppress(OSError, ValueError):
        return json.loads(files.read_source(folder_of(name) / str(number) / PLAN))
    return {}


def last(name: StackName) -> Run | None:
    """Return the last run."""
    return read(name, known[-1]) if (known := numbers(name)) else None


def write(name: StackName, run: Run) -> None:
    """Write the record of a run."""
    # The name of a file may not be UTF-8.
    content = json.dumps(msgspec.to_builtins(run), indent=1, ensure_ascii=False).encode("utf-8", "replace")
    files.replace(folder_of(name) / str(run.number) / RECORD, content + b"\n")


def new_folder(name: StackName) -> Path:
    """Create the folder with the next number."""
    parent = paths.private_folder(folder_of(name))
    with files.locked(parent / "lock", seconds=20, what=f"the run history of {name.stack}"):
        counter = parent / "last"
        before = counter.read_text() if counter.is_file() else "0"
        known = [*numbers(name), int(before) if before.isdecimal() else 0]
        folder = parent / str(max(known) + 1)
        files.replace(counter, folder.name.encode())
        folder.mkdir(mode=0o700)
    return folder


class Recording:
    """The recorder of an `up` or `restart` of a project; keeps the code unless `from_script`."""

    def __init__(
        self,
        before: stacks.Stack,
        command: str,
        folder: Path,
        settings: Mapping[str, Any],
        secret_settings: Iterable[str],
        *,
        from_script: bool = False,
    ) -> None:
        self.name = before.name
        self.run: Run | None = None
        self._command = command
        self.folder = folder
        self._settings = settings
        self._secret_settings = secret_settings
        self._from_script = from_script
        self._last_statuses = keep_last_logs(before)
        self._began: datetime | None = None
        self.has_begun = False

    @property
    def has_changes(self) -> bool:
        return self._began is not None

    def mark_changes(self) -> None:
        """Record that the engine begins to change something."""
        self._began = self._began or now()

    def begin(self, changed: list[str], content: Mapping[str, Any]) -> str:
        """Write the record; return an error message if it could not be written at all.

        `content` is the JSON of `symphony plan`, with the inputs of the components as `declared`.
        """
        if self.has_begun:
            return ""
        self.has_begun = True
        end_last(self.name, self._last_statuses, "ended by the next run")
        plan: Mapping[str, Any] = content["plan"]
        parameters = {name: row["value"] for name, row in content["parameters"].items()}
        # A parameter such as max_tokens is not a secret; the plan shows it too.
        own = {f"{self.name.project}:{name}" for name in parameters}
        secret = {name for name in self._settings if _SECRET.search(name) and name not in own}
        secret.update(self._secret_settings)
        run = Run(
            number=0,
            stack=self.name.stack,
            project=self.name.project,
            backend=plan["backend"],
            command=self._command,
            started=self._began or now(),
            user=_user(),
            host=paths.host(),
            folder=str(self.folder),
            changed=changed,
            settings={name: setting for name, setting in self._settings.items() if name not in secret},
            secret_settings=sorted(secret),
            parameters=parameters,
            addresses={row["name"]: f"{row['host']}:{row['port']}" for row in plan["services"]},
        )
        folder: Path | None = None
        try:
            folder = new_folder(self.name)
            run.number = int(folder.name)
            write(self.name, run)
        except (OSError, SymphonyError) as error:
            if folder is not None:
                remove(folder)
            return f"this run is not recorded: {getattr(error, 'strerror', None) or error}"
        self.run = run
        with _missing_on_error(run, "the plan"):
            files.replace(folder / PLAN, json.dumps(_masked(content), indent=1).encode())
        # Relative to the folder in which the program runs, as with `main: src/` in Pulumi.yaml.
        program_folder = Path(content["declared"]["experiment"]["folder"])
        self._keep_code(run, folder, secret_files(plan, program_folder))
        self._write()
        return ""

    def end(self, statuses: Sequence[ProcessStatus] = (), trouble: str = "") -> None:
        """Complete the record when the engine has ended; trouble: why the run failed."""
        run = self.run
        if run is None:
            return
        run.processes = _endings(statuses)
        run.state = f"failed: {trouble}" if trouble else ""
        stack = stacks.read(self.name)
        run.images = {
            resource.name: str(resource.outputs["image"])
            for resource in stack.resources
            if resource.type.endswith("symphony_docker:Image") and resource.outputs.get("image")
        }
        _keep_logs(stack, run)
        self._write()
        prune(self.name)

    def _keep_code(self, run: Run, folder: Path, secret_files: frozenset[str]) -> None:
        code = folder / CODE
        origin = kept_code.origin(self.folder)
        if origin is not None:
            # `up --run` and sweeps run from code that is kept already.
            run.code, run.git, run.folder = origin.code, origin.git, origin.folder
            if folder_of(self.name) in Path(origin.code).parents:
                before = Path(origin.code).parent
                run.changed.insert(0, f"run {before.name} again")
                if not (before / CODE).is_dir():
                    # It was restored from git, which restores it again.
                    run.code = ""
                    run.missing.append("the code, which is in git")
                    with suppress(OSError):
                        shutil.copy2(before / DIFF, folder / DIFF)
                    return
                with _missing_on_error(run, "the code"):
                    kept_code.keep(before / CODE, code, before / CODE, secret_files)
                    run.code = str(code)
            return
        run.git, diff = git.state(self.folder)
        with _missing_on_error(run, "the git diff"):
            if diff and kept_code.holds_secret(diff):
                run.missing.append("the git diff: it may hold a credential")
            elif diff:
                files.replace(folder / DIFF, diff)
        if self._from_script:
            run.missing.append(_SCRIPT)
            return
        with _missing_on_error(run, "the code"):
            copies = [folder_of(self.name) / str(number) / CODE for number in numbers(self.name)]
            before = next((copy for copy in reversed(copies) if copy.is_dir() and copy != code), None)
            run.missing += kept_code.keep(self.folder, code, before, secret_files)
            run.code = str(code) if code.is_dir() else ""
        if not run.code:
            # An incomplete copy would not run.
            remove(code)

    def _write(self) -> None:
        """Write the record; on a full disk, remove other parts of it to make room."""
        run = self.run
        if run is None:
            return
        with suppress(OSError):
            write(self.name, run)
            return
        folder = folder_of(self.name) / str(run.number)
        for part in (CODE, DIFF, PLAN):
            remove(folder / part)
        run.code = ""
        run.missing.append("plan, diff and code: the disk is full")
        with suppress(OSError):
            write(self.name, run)


@contextmanager
def _missing_on_error(run: Run, part: str) -> Generator[None]:
    """Add a part to the missing parts of a record if the block raises OSError."""
    try:
        yield
    except OSError as error:
        run.missing.append(f"{part}: {error.strerror or error}")


def _user() -> str:
    with suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_name
    return f"uid-{os.getuid()}"


def _masked(value: Any, field: str = "") -> Any:
    """Return a value without the variables in its `env` fields whose names look secret."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        hidden = {key for key, item in items if isinstance(item, str) and _SECRET.search(key)}
        hidden = hidden if field == "env" else set[str]()
        return {key: "[hidden]" if key in hidden else _masked(item, key) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [_masked(item) for item in cast("Sequence[Any]", value)]
    return value


def _endings(statuses: Iterable[ProcessStatus]) -> dict[str, Ending]:
    return {
        status.path: Ending(
            status.state,
            status.why,
            status.restarts,
            0 if status.state == "completed" else status.exit_code,
        )
        for status in statuses
    }


def secret_files(plan: Mapping[str, Any], folder: Path) -> frozenset[str]:
    """Return the absolute paths of the files with secrets that a plan names; folder: of its program."""
    named = [*plan["secrets"], *(text for row in plan["processes"] for text in row["secret_env"].values())]
    return frozenset(os.path.normpath(folder / Path(str(text)).expanduser()) for text in named)


def adopt(stack: stacks.Stack) -> None:
    """Record the last update by a plain `pulumi up`, as far as the state records it."""
    if stack.experiment is None or stack.recorded is None or stack.backend is None:
        return
    if (update := store.last_plain_update(stack.name)) is None:
        return
    started = datetime.fromtimestamp(float(update["startTime"]), UTC)
    before = last(stack.name)
    if before is not None and before.started >= started:
        return
    end_last(stack.name, (), "ended by the next run")
    run = Run(
        number=0,
        stack=stack.name.stack,
        project=stack.name.project,
        backend=stack.backend,
        command="pulumi up",
        started=started,
        host=stack.recorded.host,
        folder=stacks.folder(stack),
        changed=[f"{count(number, 'resource')}: {op}" for op, number in update["resourceChanges"].items()],
        addresses=stacks.addresses(stack),
        missing=[NOT_KNOWN],
    )
    if head := update["environment"].get("git.head"):
        run.git = git.Git(str(head))
    groups = (resource for resource in stack.resources if resource.type == stacks.GROUP)
    declared = {
        "experiment": stack.experiment.inputs.get(DECLARED, {}),
        "groups": {group.name: group.inputs.get(DECLARED, {}) for group in groups},
        "processes": stack.declared_processes,
    }
    with suppress(OSError):
        folder = new_folder(stack.name)
        run.number = int(folder.name)
        files.replace(folder / PLAN, json.dumps(_masked({"declared": declared}), indent=1).encode())
        write(stack.name, run)


def keep_last_logs(stack: stacks.Stack) -> Sequence[ProcessStatus]:
    """Keep the logs of the last run, before they change; return the states of its processes."""
    adopt(stack)
    run = last(stack.name)
    if run is None or run.ended:
        return ()
    if stack.recorded is None and (orphan := stacks.orphan_of(stack.name)) is not None:
        _keep_logs(orphan, run)
    if stack.recorded is None or not stacks.is_here(stack):
        return ()
    stack = stacks.ensure_same_location(stack)
    statuses = stack.statuses()
    _keep_logs(stack, run)
    with suppress(OSError):
        write(stack.name, run)
    return () if isinstance(statuses, SymphonyError) else statuses


def trouble_of(statuses: Sequence[ProcessStatus]) -> str:
    """Return the process that failed or was stopped, with the reason; empty without one."""
    by_state = {status.state: status for status in reversed(statuses)}
    # A process that failed may have stopped the others; those that serve it may still run.
    order = ("failed", "lost", "blocked", "stopped")
    status = next((by_state[state] for state in order if state in by_state), None)
    return f"{status.path} {status.state}: {status.why}".rstrip(": ") if status else ""


def end_last(name: StackName, statuses: Sequence[ProcessStatus], why: str) -> None:
    """Record the end of the last run, if it is open; `why` is its reason unless all processes ended."""
    run = last(name)
    if run is None or run.ended:
        return
    run.processes = _endings(statuses) or run.processes
    run.ended = now()
    if statuses and all(status.state in _ENDED for status in statuses):
        run.state = trouble_of(statuses) or "completed"
        if times := [status.since for status in statuses if status.since]:
            run.ended = max(run.started, datetime.fromtimestamp(max(times), UTC))
    else:
        run.state = run.state or why
    with suppress(OSError):
        write(name, run)


def set_ending(name: StackName, why: str) -> None:
    """Record why the last run is about to be stopped, so that its end is not reported as "deleted"."""
    run = last(name)
    if run is None or run.ended:
        return
    run.state = why
    with suppress(OSError):
        write(name, run)


def with_current_states(stack: stacks.Stack, run: Run) -> Run:
    """Return an open run with the current states of its processes."""
    if run.ended:
        return run
    if stack.recorded is None:
        if stacks.orphan_of(stack.name) is not None:
            return msgspec.structs.replace(run, state="not in the state: its `up` was killed")
        # The deletion could not write the end of the run.
        return msgspec.structs.replace(run, state=run.state or "deleted")
    statuses = stacks.ensure_same_location(stack).statuses()
    if isinstance(statuses, SymphonyError):
        return msgspec.structs.replace(run, state=f"unknown: {statuses.what}")
    if statuses and all(status.state in _ENDED for status in statuses):
        end_last(stack.name, statuses, "")
        return read(stack.name, run.number)
    failed = next((status for status in statuses if status.state == "failed"), None)
    state = f"running, {failed.path} failed: {failed.why}".rstrip(": ") if failed else run.state
    return msgspec.structs.replace(run, processes=_endings(statuses), state=state)


def _keep_logs(stack: stacks.Stack, run: Run) -> None:
    """Keep the logs of a run; log files get a hard link, which outlives the original name."""
    if stack.recorded is None or stack.backend is None:
        return
    folder = logs_of(stack.name, run)
    if not _has_log_files(stack):
        trouble = pod_logs.collect(stack, folder, run.started.timestamp())
        missing = f"logs since they were last collected: {trouble}"
        if trouble and missing not in run.missing:
            run.missing.append(missing)
        return
    for path, process in stack.recorded.processes.items():
        source = Path(str(process.get("log") or ""))
        target = pod_logs.log_folder(folder, path)
        with _missing_on_error(run, f"the log of {path}"):
            for file in _LOG_FILES:
                if (origin := source.with_name(file)).is_file():
                    paths.private_folder(target)
                    _link(origin, target / file)


def _has_log_files(stack: stacks.Stack) -> bool:
    """Return whether the logs of an experiment are files on this machine, unlike those of pods."""
    return any("log" in process for process in stack.processes.values())


def keep_followed(stack: stacks.Stack, lines: Iterator[LogLine]) -> Iterator[LogLine]:
    """Return the followed lines; those of pods are also appended to the logs of the run."""
    run = last(stack.name)
    if run is None or run.ended or _has_log_files(stack):
        return lines
    stack = stacks.ensure_same_location(stack)
    return pod_logs.keeping(stack, logs_of(stack.name, run), run.started.timestamp(), lines)


def _link(origin: Path, target: Path) -> None:
    if target.exists() and (target.samefile(origin) or _is_copy(origin, target)):
        return
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(origin)
    except OSError:
        # The log is on another disk, or its file system has no hard links.
        shutil.copy2(origin, target)


def _is_copy(origin: Path, target: Path) -> bool:
    old, new = target.stat(), origin.stat()
    return (old.st_mtime_ns, old.st_size) == (new.st_mtime_ns, new.st_size)


def logs_of(name: StackName, run: Run) -> Path:
    """Return the folder with the logs of a run."""
    return folder_of(name) / str(run.number) / LOGS


def size(folders: Iterable[Path]) -> int:
    """Return the disk usage of folders; a file with several hard links counts once."""
    by_inode: dict[int, int] = {}
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):
                    stat = os.lstat(os.path.join(parent, name))  # noqa: PTH118 : hot path
                    by_inode[stat.st_ino] = stat.st_blocks * 512
    return sum(by_inode.values())


def prune(name: StackName) -> list[int]:
    """Remove the oldest runs of an experiment beyond its limits; return their numbers."""
    known = numbers(name)
    settings = settings_reader.read_settings(read(name, known[-1]).settings if known else {})
    removed = known[: -settings.keep_runs]
    # Measuring the size of all runs is slow: do it only now and then.
    if removed or len(known) % 5 == 0:
        removed += _over_size(name, known[-settings.keep_runs :], settings.keep_gigabytes * 1e9)
    for number in removed:
        remove(folder_of(name) / str(number))
    return removed


def older(name: StackName, age: float) -> list[int]:
    """Return the runs that ended more than `age` seconds ago."""
    limit = now().timestamp() - age
    records = every(name)
    ended = [run for run in records if run.ended or run is not records[-1]]
    return [run.number for run in ended if (run.ended or run.started).timestamp() < limit]


def _over_size(name: StackName, kept: list[int], limit: float) -> Iterator[int]:
    """Yield the oldest runs to remove until the others are within the limit."""
    while len(kept) > 1 and size(folder_of(name) / str(number) for number in kept) > limit:
        yield kept.pop(0)


def forget(name: StackName) -> None:
    """Remove all runs of an experiment."""
    remove(folder_of(name))


def remove(folder: Path) -> None:
    """Remove a folder with its content."""
    with suppress(OSError):
        files.remove(folder)
