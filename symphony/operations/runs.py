"""Records the runs of experiments: a numbered folder for each `up` or `restart` that changed something.

A folder has run.json (who, when, git, settings, ends), plan.json, git.diff, the code, and the logs. No run
needs its record: one that cannot be written says what it lacks, and the run continues.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from symphony import files, paths
from symphony.backends.observe import LogLine, ProcessStatus
from symphony.engine.state import store
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError, UserError
from symphony.operations import git, kept_code, pod_logs, stacks
from symphony.operations.process import duration
from symphony.plan.names import DECLARED, listed

VERSION = 1
RECORD, PLAN, DIFF, CODE, LOGS = "run.json", "plan.json", "git.diff", "code", "logs"
_SECRET = re.compile(r"(?i)secret|token|passw|passphrase|key|credential|auth")
_EXIT = re.compile(r"exit (\d+)")
# The files of a log: what was printed, and when; `.1` is the part before the last rotation.
_LOG_FILES = ("log", "index", "log.1", "index.1")
_ENDED = ("completed", "failed", "lost", "stopped")
_T = TypeVar("_T")


class Ending(msgspec.Struct, omit_defaults=True):
    """The state of a process when its run ended, or was looked at last."""

    state: str
    why: str = ""
    restarts: int = 0
    exit_code: int | None = None


class Summary(msgspec.Struct, kw_only=True):
    """The part of a record that lists show; the whole record takes six times as long to decode.

    Attributes:
        user: Who ran it.
        changed: The changes of the plan, in words.
        ended: When the next run, a deletion, or its last process ended it.
        state: How it ended, in words; empty while it runs.
        missing: What the record lacks, and why.
    """

    number: int
    started: datetime = datetime.fromtimestamp(0, UTC)
    user: str = ""
    git: git.Git | None = None
    changed: list[str] = []
    ended: datetime | None = None
    state: str = ""
    missing: list[str] = []

    @property
    def seconds(self) -> float:
        """Return how long the run has lasted, until now or until its end."""
        return ((self.ended or now()) - self.started).total_seconds()

    @property
    def ending(self) -> str:
        """Return the end in words: `completed, 2h 11m`."""
        return f"{self.state}, {duration(self.seconds)}" if self.ended else self.state or "running"


class Run(Summary, kw_only=True):
    """The record of a run.

    Attributes:
        version: That of the record's form.
        command: "up" or "restart".
        host, folder: Where it was run, and from which project.
        settings: The settings of the stack without secret ones, whose names are in `secret_settings`.
        code: The folder with the kept code; empty where none was kept.
        processes: path -> the state of each process at the end.
    """

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


def now() -> datetime:
    return datetime.now(UTC)


def folder_of(name: StackName) -> Path:
    """Return the folder with the runs of an experiment."""
    return paths.home() / "runs" / paths.store_id() / name.project / name.stack


def known() -> list[StackName]:
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
    names, project = known(), stacks.current_project()
    own = [name for name in names if project in (None, name.project)]
    if word is None:
        if len(own) == 1:
            return own[0]
        remedy = (
            f"Name one of: {listed([*stacks.labels(own).values()])}" if own else "`symphony up` records a run"
        )
        raise UserError("several experiments have runs" if own else "no runs are recorded", remedy=remedy)
    exact = [name for name in names if word in (name.stack, f"{name.project}/{name.stack}", str(name))]
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
    """Return the runs of an experiment in order, or the last ones only."""
    return [*_every(name, last, _record)]


def summaries(name: StackName, last: int | None = None) -> list[Summary]:
    """Return the summaries of runs."""
    return [*_every(name, last, _summary)]


_record, _summary = msgspec.json.Decoder(Run), msgspec.json.Decoder(Summary)


def _every(name: StackName, last: int | None, decoder: msgspec.json.Decoder[_T]) -> Iterator[_T | Run]:
    folder = folder_of(name)
    for number in numbers(name)[-last if last else None :]:
        yield _read(f"{folder}/{number}", name, number, decoder)


def read(name: StackName, number: int) -> Run:
    """Return the record of a run; if it is damaged, the record says so.

    Raises:
        UserError: There is no such run.
    """
    folder = folder_of(name) / str(number)
    if not folder.is_dir():
        remedy = f"Known: {listed([*map(str, numbers(name))]) or 'none'}"
        raise UserError(f"{name.stack} has no run {number}", remedy=remedy)
    return _read(str(folder), name, number, _record)


def _read(folder: str, name: StackName, number: int, decoder: msgspec.json.Decoder[_T]) -> _T | Run:
    try:
        return decoder.decode(files.read_source(f"{folder}/{RECORD}"))
    except OSError:
        lack = "no record was written"
    except ValueError as error:
        lack = f"its record is damaged: {error}"
    began = datetime.fromtimestamp(Path(folder).stat().st_mtime, UTC)
    return Run(number=number, stack=name.stack, project=name.project, started=began, missing=[lack])


def plan(name: StackName, number: int) -> Mapping[str, Any]:
    """Return the plan of a run; empty if it is not kept."""
    with suppress(OSError, ValueError, KeyError):
        return json.loads(files.read_source(folder_of(name) / str(number) / PLAN))["plan"]
    return {}


def last(name: StackName) -> Run | None:
    """Return the last run."""
    return read(name, known[-1]) if (known := numbers(name)) else None


def write(name: StackName, run: Run) -> None:
    """Write the record of a run."""
    # The name of a file may be no UTF-8.
    content = json.dumps(msgspec.to_builtins(run), indent=1, ensure_ascii=False).encode("utf-8", "replace")
    files.replace(folder_of(name) / str(run.number) / RECORD, content + b"\n")


@dataclass(frozen=True)
class Declaration:
    """The declaration of a run, as JSON.

    Attributes:
        backend: Where it runs.
        changed: The changes in words.
        plan: The plan, with the inputs of the components.
        addresses: service -> host:port.
        parameters: Those of the program, with their values.
        secret_files: Files that are not kept.
    """

    backend: str
    changed: Sequence[str]
    plan: Mapping[str, Any]
    addresses: Mapping[str, str]
    parameters: Mapping[str, Any]
    secret_files: frozenset[str]


def new_folder(name: StackName) -> Path:
    """Create the folder with the next number."""
    above = paths.private_folder(folder_of(name))
    with files.locked(above / "lock", seconds=20, what=f"the record of {name.stack}"):
        counter = above / "last"
        before = counter.read_text() if counter.is_file() else "0"
        known = [*numbers(name), int(before) if before.isdecimal() else 0]
        place = above / str(max(known) + 1)
        files.replace(counter, place.name.encode())
        place.mkdir(mode=0o700)
    return place


class Recording:
    """The recorder of an `up` or `restart`.

    Args:
        before: The stack before it.
        command: "up" or "restart".
        folder: That of the project; its code is kept unless `hidden`.
        settings: The settings of the stack without secret ones.
        secret_settings: The names of the secret ones.
    """

    def __init__(
        self,
        before: stacks.Stack,
        command: str,
        folder: Path,
        settings: Mapping[str, Any],
        secret_settings: Iterable[str],
        *,
        hidden: bool = False,
    ) -> None:
        self.name = before.name
        self.run: Run | None = None
        self._before = before
        self._command = command
        self.folder = folder
        self._secret = sorted({*secret_settings, *filter(_SECRET.search, settings)})
        self._settings = {name: setting for name, setting in settings.items() if name not in self._secret}
        self._hidden = hidden
        self._looked = look(before)
        self._began: datetime | None = None
        self.has_begun = False

    @property
    def is_changing(self) -> bool:
        return self._began is not None

    def changing(self) -> None:
        """Record that the engine begins to change something."""
        self._began = self._began or now()

    def begin(self, declared: Declaration) -> str:
        """Write the record; return an error message if it could not be written at all."""
        if self.has_begun:
            return ""
        self.has_begun = True
        settle(self.name, self._looked, "until the next run")
        run = Run(
            number=0,
            stack=self.name.stack,
            project=self.name.project,
            backend=declared.backend,
            command=self._command,
            started=self._began or now(),
            user=_user(),
            host=paths.host(),
            folder=str(self.folder),
            changed=list(declared.changed),
            settings=self._settings,
            secret_settings=self._secret,
            parameters=dict(declared.parameters),
            addresses=dict(declared.addresses),
        )
        place: Path | None = None
        try:
            place = new_folder(self.name)
            run.number = int(place.name)
            write(self.name, run)
        except OSError as error:
            if place is not None:
                remove(place)
            return f"this run is not recorded: {error.strerror or error}"
        self.run = run
        with _noting(run, "the plan"):
            files.replace(place / PLAN, json.dumps(_masked(declared.plan), indent=1).encode())
        self._keep_code(run, place, declared.secret_files)
        self._write()
        return ""

    def end(self, statuses: Sequence[ProcessStatus] = (), trouble: str = "") -> None:
        """Complete the record when the engine is done; trouble: why the run failed."""
        run = self.run
        if run is None:
            return
        run.processes = _endings(statuses)
        run.state = f"failed: {trouble}" if trouble else ""
        stack = stacks.read(self.name)
        run.images = {
            resource.name: str(resource.outputs["image"])
            for resource in (stack.state.resources if stack.state else ())
            if resource.type.endswith("symphony_docker:Image") and resource.outputs.get("image")
        }
        _keep_logs(stack, run)
        self._write()
        prune(self.name)

    def _keep_code(self, run: Run, place: Path, secret_files: frozenset[str]) -> None:
        kept = kept_code.origin(self.folder)
        if kept is not None:
            # The code of a run that came back, or of a sweep, is kept already.
            run.code, run.git = kept.code, kept.git
            if folder_of(self.name) in Path(kept.code).parents:
                run.changed.insert(0, f"run {Path(kept.code).parent.name} again")
                with _noting(run, "the code"):
                    kept_code.keep(Path(kept.code), place / CODE, Path(kept.code), secret_files)
                    run.code = str(place / CODE)
            return
        run.git, diff = git.state(self.folder)
        with _noting(run, "the diff of git"):
            if diff and kept_code.holds_secret(diff):
                run.missing.append("the diff of git: it may hold a credential")
            elif diff:
                files.replace(place / DIFF, diff)
        if self._hidden:
            run.missing.append("the code: a script launched it")
            return
        with _noting(run, "the code"):
            earlier = [folder_of(self.name) / str(number) / CODE for number in numbers(self.name)]
            before = next(
                (code for code in reversed(earlier) if code.is_dir() and code.parent != place), None
            )
            run.missing += kept_code.keep(self.folder, place / CODE, before, secret_files)
            run.code = str(place / CODE) if (place / CODE).is_dir() else ""
        if not run.code:
            # A part of it would not run.
            remove(place / CODE)

    def _write(self) -> None:
        """Write the record; on a full disk in place of what else was kept."""
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
def _noting(run: Run, what: str) -> Generator[None]:
    """Convert an OSError in the block to a line in the record's list of missing parts."""
    try:
        yield
    except OSError as error:
        run.missing.append(f"{what}: {error.strerror or error}")


def _user() -> str:
    with suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_name
    return f"uid-{os.getuid()}"


def _masked(facts: Any, name: str = "") -> Any:
    """Return facts without the values of variables whose names look secret."""
    if isinstance(facts, Mapping):
        pairs = cast("Mapping[str, Any]", facts)
        hide = name == "env"
        return {
            key: "[hidden]" if hide and isinstance(fact, str) and _SECRET.search(key) else _masked(fact, key)
            for key, fact in pairs.items()
        }
    if isinstance(facts, (list, tuple)):
        return [_masked(fact) for fact in facts]  # pyright: ignore[reportUnknownVariableType]
    return facts


def _endings(statuses: Iterable[ProcessStatus]) -> dict[str, Ending]:
    return {
        status.path: Ending(status.state, status.why, status.restarts, _exit_code(status))
        for status in statuses
    }


def _exit_code(status: ProcessStatus) -> int | None:
    exit_code = _EXIT.match(status.why)
    return int(exit_code[1]) if exit_code else 0 if status.state == "completed" else None


def secret_files(plan: Mapping[str, Any], folder: Path) -> frozenset[str]:
    """Return the absolute paths of the files with secrets that a plan names."""
    named = [*plan["secrets"], *(text for row in plan["processes"] for text in row["secret_env"].values())]
    return frozenset(os.path.normpath(folder / Path(str(text)).expanduser()) for text in named)


def adopt(stack: stacks.Stack) -> None:
    """Record the last update by a plain `pulumi up`, as far as the state tells."""
    experiment = stacks.experiment_in(stack.state)
    update = store.last_plain_update(stack.name) if experiment and stack.recorded else None
    before = last(stack.name)
    if update is None or experiment is None or stack.state is None or stack.backend is None:
        return
    started = datetime.fromtimestamp(float(update["startTime"]), UTC)
    if before is not None and before.started >= started:
        return
    settle(stack.name, (), "until the next run")
    run = Run(
        number=0,
        stack=stack.name.stack,
        project=stack.name.project,
        backend=stack.backend,
        command="pulumi up",
        started=started,
        host=stack.recorded.host if stack.recorded else "",
        folder=stacks.folder(stack),
        changed=[f"{number} resources: {what}" for what, number in update["resourceChanges"].items()],
        addresses=stacks.addresses(stack),
        missing=["user, git, settings and code: a plain `pulumi up` started it"],
    )
    if head := update["environment"].get("git.head"):
        run.git = git.Git(str(head))
    declared: dict[str, Any] = {
        "experiment": experiment.inputs.get(DECLARED, {}),
        "groups": {},
        "processes": {},
    }
    for resource in stack.state.resources:
        kind = {"symphony:index:ProcessGroup": "groups", "symphony:index:Process": "processes"}.get(
            resource.type
        )
        if kind is not None:
            declared[kind][resource.name] = resource.inputs.get(DECLARED, {})
    with suppress(OSError):
        place = new_folder(stack.name)
        run.number = int(place.name)
        files.replace(place / PLAN, json.dumps(_masked({"declared": declared}), indent=1).encode())
        write(stack.name, run)


def look(stack: stacks.Stack) -> Sequence[ProcessStatus]:
    """Return the states of the processes of the last run, and keep their logs, before they change."""
    adopt(stack)
    run = last(stack.name)
    if stack.recorded is None or run is None or run.ended or not stacks.is_here(stack):
        return ()
    stack = stacks.ensure_same_location(stack)
    assert stack.recorded is not None
    (statuses,) = stack.observer().statuses([stack.recorded])
    _keep_logs(stack, run)
    with suppress(OSError):
        write(stack.name, run)
    return () if isinstance(statuses, SymphonyError) else statuses


def trouble_of(statuses: Iterable[ProcessStatus]) -> str:
    """Return the process that failed or was stopped, with the reason; empty if all completed."""
    ended = [status for status in statuses if status.state != "completed"]
    # A process that failed may have stopped the others.
    status = next((status for status in ended if status.state != "stopped"), next(iter(ended), None))
    return f"{status.path} {status.state}: {status.why}".rstrip(": ") if status else ""


def settle(name: StackName, statuses: Sequence[ProcessStatus], why: str) -> None:
    """Record the end of the last run, if it is still open.

    Args:
        name: The experiment.
        statuses: The states of its processes.
        why: The end in words, where it is not that of the processes.
    """
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
    """Record why the last run is about to be stopped, so that its end is not told as "deleted"."""
    run = last(name)
    if run is None or run.ended:
        return
    run.state = why
    with suppress(OSError):
        write(name, run)


def live(stack: stacks.Stack, run: Run) -> Run:
    """Return an open run with the current states of its processes."""
    if run.ended:
        return run
    if stack.recorded is None:
        # The deletion could not write the end of the run.
        return msgspec.structs.replace(run, state=run.state or "deleted")
    stack = stacks.ensure_same_location(stack)
    assert stack.recorded is not None
    (statuses,) = stack.observer().statuses([stack.recorded])
    if isinstance(statuses, SymphonyError):
        return msgspec.structs.replace(run, state=f"unknown: {statuses.what}")
    if statuses and all(status.state in _ENDED for status in statuses):
        settle(stack.name, statuses, "")
        return read(stack.name, run.number)
    failed = next((status for status in statuses if status.state == "failed"), None)
    state = f"running, {failed.path} failed: {failed.why}".rstrip(": ") if failed else run.state
    return msgspec.structs.replace(run, processes=_endings(statuses), state=state)


def _keep_logs(stack: stacks.Stack, run: Run) -> None:
    """Keep the logs of a run; log files get a hard link, which outlives the original name."""
    if stack.recorded is None or stack.backend is None:
        return
    folder = logs_of(stack.name, run)
    if not _has_files(stack):
        trouble = pod_logs.collect(stack, folder, run.started.timestamp())
        lack = f"logs since the last look: {trouble}"
        if trouble and lack not in run.missing:
            run.missing.append(lack)
        return
    for path, facts in stack.recorded.processes.items():
        source = Path(str(facts.get("log") or ""))
        target = pod_logs.log_folder(folder, path)
        with _noting(run, f"the log of {path}"):
            for file in _LOG_FILES:
                if (origin := source.with_name(file)).is_file():
                    paths.private_folder(target)
                    _link(origin, target / file)


def _has_files(stack: stacks.Stack) -> bool:
    """Return whether the logs of an experiment are files here, as all but those of pods are."""
    return any("log" in facts for facts in stack.processes.values())


def followed(stack: stacks.Stack, lines: Iterator[LogLine]) -> Iterator[LogLine]:
    """Return lines that are followed, which go to the logs of the run as well where those are in pods."""
    run = last(stack.name)
    if run is None or run.ended or _has_files(stack):
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
        # Another disk, or one without links.
        shutil.copy2(origin, target)


def _is_copy(origin: Path, target: Path) -> bool:
    old, new = target.stat(), origin.stat()
    return (old.st_mtime_ns, old.st_size) == (new.st_mtime_ns, new.st_size)


def logs_of(name: StackName, run: Run) -> Path:
    """Return the folder with the logs of a run."""
    return folder_of(name) / str(run.number) / LOGS


def size(folders: Iterable[Path]) -> int:
    """Return the disk usage of folders; a file with several hard links counts once."""
    seen: dict[int, int] = {}
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):
                    facts = os.lstat(os.path.join(place, name))  # noqa: PTH118 : hot path
                    seen[facts.st_ino] = facts.st_blocks * 512
    return sum(seen.values())


def prune(name: StackName) -> list[int]:
    """Remove the oldest runs of an experiment beyond its limits; return their numbers."""
    known = numbers(name)
    settings = read(name, known[-1]).settings if known else {}
    most = _number(settings.get("symphony:keepRuns"), 20)
    limit = _number(settings.get("symphony:keepGigabytes"), 5) * 1e9
    gone = known[: -int(most)]
    # A look at the size of all takes longer than the rest.
    if gone or len(known) % 5 == 0:
        gone += list(_above(name, known[-int(most) :], limit))
    for number in gone:
        remove(folder_of(name) / str(number))
    return gone


def older(name: StackName, age: float) -> list[int]:
    """Return the runs that ended more than `seconds` ago."""
    border = now().timestamp() - age
    last_one = numbers(name)[-1:]
    return [
        run.number
        for run in summaries(name)
        if (run.ended or (run.started if run.number not in last_one else now())).timestamp() < border
    ]


def _number(text: Any, default: float) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return default


def _above(name: StackName, kept: list[int], limit: float) -> Iterator[int]:
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
