"""Sweeps: trials with different parameters, each of which is a stack that runs a frozen copy of the code.

The folder of a sweep has sweep.json and the frozen code. The runner, a process in a tmux window of its own,
starts the trials; it reads and writes sweep.json, so it continues where a killed runner stopped.
"""

import csv
import itertools
import math
import os
import random
import re
import shlex
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from symphony import files, paths
from symphony.engine import workspace as workspaces
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError, UserError
from symphony.operations import kept_code, runs, stacks
from symphony.operations.git import Git
from symphony.operations.selected_stack import SelectedStack, sweeps_folder
from symphony.plan.names import is_name, quoted

VERSION = 1  # of the file, for later readers; nothing checks it yet
# More trials than this are most likely a mistake.
MAX_TRIALS = 10_000
PROCESS = "sweep"
_RECORD = "sweep.json"
_NOTIFY = "symphony:notify"
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_RANDOM = re.compile(r"(log|uniform)\(([^,()]+),([^,()]+)\)\*(\d+)")
# The variables that an engine or a process of symphony sets for its own children.
_ENGINES_OWN = ("SYMPHONY_RUN", "SYMPHONY_PLUGINS", "SYMPHONY_COMMAND", "SYMPHONY_ROLE")
_OPEN = ("waiting", "starting", "running")


class Trial(msgspec.Struct):
    """A trial of a sweep.

    Attributes:
        state: waiting, starting, running, completed, failed or stopped.
        started, ended: Times in seconds since the epoch, else 0.
        began: When one of its processes was first seen to run, from which `stop_after` counts; else 0.
        why: The reason of a failure.
        is_cleared: Whether its stack was deleted after its end; its run is kept.
    """

    number: int
    values: dict[str, str]
    state: str = "waiting"
    started: float = 0
    began: float = 0
    ended: float = 0
    why: str = ""
    is_cleared: bool = False


class Sweep(msgspec.Struct):
    """A sweep: its trials and their limits.

    Attributes:
        stack: The stack whose program and settings the trials have.
        backend: The backend of the trials; the runner is in tmux.
        at_most: The maximum number of trials that run at once.
        stop_after: The time limit of a trial in seconds.
        generation: The number of times that the command was run; a new one restarts the runner.
        notified_until: The end of the last trial that the command of symphony:notify has reported.
    """

    name: str
    project: str
    stack: str
    backend: str = "tmux"
    at_most: int = 4
    trials: list[Trial] = []
    version: int = VERSION
    stop_after: float | None = None
    generation: int = 0
    notified_until: float = msgspec.field(default=0, name="told")
    git: Git | None = None

    @property
    def full_name(self) -> StackName:
        return StackName(self.project, self.name)

    @property
    def folder(self) -> Path:
        return folder_of(self.full_name)

    @property
    def code(self) -> Path:
        return self.folder / "code"

    def stack_of(self, trial: Trial) -> StackName:
        """Return the stack of a trial."""
        return StackName(self.project, f"{self.name}.{trial.number}")

    @property
    def has_begun(self) -> bool:
        """Return whether sweep.json exists; another command may have written it meanwhile."""
        return (self.folder / _RECORD).exists()

    @property
    def names(self) -> list[str]:
        """The names of the parameters."""
        return list(dict.fromkeys(name for trial in self.trials for name in trial.values))

    @property
    def summary(self) -> str:
        """Return `7/12 done, 4 running, 1 failed`."""
        counts = Counter(trial.state for trial in self.trials)
        done = counts.pop("completed", 0)
        counts["running"] += counts.pop("starting", 0)
        order = ("running", "failed", "stopped", "waiting")
        others = [f"{counts[state]} {state}" for state in order if counts[state]]
        return ", ".join([f"{done}/{len(self.trials)} done", *others])

    @property
    def has_ended(self) -> bool:
        return all(trial.state not in _OPEN for trial in self.trials)


def folder_of(name: StackName) -> Path:
    """Return the folder of a sweep."""
    return sweeps_folder(name.project) / name.stack


def read(name: StackName) -> Sweep | None:
    """Return a sweep, or None if there is none of this name; raise SymphonyError for a damaged record."""
    file = folder_of(name) / _RECORD
    try:
        return msgspec.json.decode(files.read_source(file), type=Sweep)
    except OSError:
        return None
    except msgspec.MsgspecError as error:
        remedy = "Remove its folder, and start the sweep again"
        raise SymphonyError(
            f"the sweep {name.stack} is damaged: {error}", where=str(file), remedy=remedy
        ) from None


def every() -> list[Sweep]:
    """Return all sweeps."""
    root = paths.home() / "sweeps" / paths.store_id()
    names = sorted(
        StackName(*file.parent.relative_to(root).parts) for file in files.matching(root, f"*/*/{_RECORD}")
    )
    return [sweep for sweep in map(read, names) if sweep is not None]


@contextmanager
def changing(name: StackName) -> Generator[Sweep]:
    """Yield a sweep to change, and write it after the block; other processes wait meanwhile."""
    folder = folder_of(name)
    with files.locked(folder / "lock", seconds=20, what=f"the sweep {name.stack}"):
        sweep = read(name)
        if sweep is None:
            raise UserError(f"there is no sweep {name.stack}", remedy="`symphony ls` lists sweeps")
        yield sweep
        _write(sweep)


def _write(sweep: Sweep) -> None:
    content = msgspec.json.format(msgspec.json.encode(sweep), indent=1)
    files.replace(sweep.folder / _RECORD, content + b"\n", durable=True)


def trials_of(words: Sequence[str], name: str) -> list[dict[str, str]]:
    """Return the values of every trial.

    Args:
        words: `lr=0.1,0.3`, `seed=1..5`, `lr=log(1e-4,1e-1)*20`, `x=uniform(0,1)*20` or `@trials.csv`;
            lists and ranges make a grid, random values are drawn together.
        name: The name of the sweep, which is the seed of random values.

    Raises:
        UserError: A word has another form, or there are too many trials.
    """
    axes: dict[str, list[str]] = {}
    drawn: dict[str, list[str]] = {}
    rows: list[dict[str, str]] = [{}]
    for word in words:
        if word.startswith("@"):
            rows = [{**row, **trial} for row in rows for trial in _read_table(Path(word[1:]))]
            continue
        key, _, text = word.partition("=")
        if not (key and text):
            raise UserError(
                f"cannot read the parameter {quoted(word)}",
                remedy="Write lr=0.1,0.3 or seed=1..5 or @trials.csv",
            )
        if key in axes or key in drawn:
            raise UserError(
                f"the parameter {key} is set twice", remedy=f"Write all its values in a single {key}="
            )
        if match := _RANDOM.fullmatch(text.replace(" ", "")):
            drawn[key] = _random_values(match, f"{name} {key}")
        else:
            axes[key] = _listed_values(text)
    if len({len(values) for values in drawn.values()}) > 1:
        raise UserError(
            "the random parameters have different numbers of draws",
            remedy="Write the same number after the * of each, such as log(1e-4,1e-1)*20",
        )
    grid = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    draws = [dict(zip(drawn, values, strict=True)) for values in zip(*drawn.values(), strict=True)] or [{}]
    trials = [{**row, **draw, **point} for row in rows for draw in draws for point in grid]
    if len(trials) > MAX_TRIALS:
        raise UserError(
            f"the sweep has {len(trials)} trials, more than {MAX_TRIALS}", remedy="Use fewer values"
        )
    return [dict(values) for values in dict.fromkeys(tuple(trial.items()) for trial in trials)]


def _listed_values(text: str) -> list[str]:
    values: list[str] = []
    if text.startswith(("log(", "uniform(")):
        raise UserError(
            f"{quoted(text)} is not two bounds and a number of draws",
            remedy="Write the bounds and the number of draws, such as log(1e-4,1e-1)*20",
        )
    for part in text.split(","):
        if match := _RANGE.fullmatch(part):
            first, last = int(match[1]), int(match[2])
            values += [str(number) for number in range(first, last + 1)]
        else:
            values.append(part)
    if not values or "" in values:
        raise UserError(f"{quoted(text)} has an empty value or range", remedy="Write lr=0.1,0.3 or seed=1..5")
    return values


def _random_values(match: re.Match[str], seed: str) -> list[str]:
    source = random.Random(seed)
    try:
        low, high = float(match[2]), float(match[3])
        if match[1] == "log":
            low, high = math.log(low), math.log(high)
    except ValueError:
        kind = "numbers above 0" if match[1] == "log" else "numbers"
        raise UserError(
            f"the bounds of {match[0]} are not {kind}",
            remedy="Write the bounds and the number of draws, such as log(1e-4,1e-1)*20",
        ) from None
    draws = [source.uniform(low, high) for _ in range(int(match[4]))]
    return [f"{math.exp(draw) if match[1] == 'log' else draw:.4g}" for draw in draws]


def _read_table(file: Path) -> list[dict[str, str]]:
    try:
        # A byte order mark is what spreadsheets write, a space after a comma what people do.
        with file.open(newline="", encoding="utf-8-sig") as opened:
            table = csv.DictReader(opened, skipinitialspace=True)
            rows = [{key: text for key, text in row.items() if key and text} for row in table]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        remedy = f"Write the path of a CSV file in UTF-8 after the @, such as {quoted('@trials.csv')}"
        what = f"the file of trials cannot be read: {reason}"
        raise UserError(what, where=str(file), remedy=remedy) from None
    if not rows:
        raise UserError(
            "the file has no trials",
            where=str(file),
            remedy="Write a line with the names of the parameters, then a line for each trial",
        )
    return rows


def prepare(
    workspace: workspaces.Workspace, stack: str, name: str, values: Sequence[Mapping[str, str]]
) -> Sweep:
    """Return a new sweep, or the sweep of this name with further trials; write nothing.

    Raises:
        UserError: The name is not valid, or an experiment or a sweep of another stack has it.
    """
    if not is_name(name):
        raise UserError(
            f"{quoted(name)} is not a valid name of a sweep",
            remedy="Use letters, digits, - and _ with --name",
        )
    full_name = StackName(workspace.project, name)
    sweep = read(full_name)
    if sweep is None:
        existing = stacks.find_exact(str(full_name))
        if existing is not None and existing.recorded is not None:
            raise UserError(f"an experiment is already called {name}", remedy="Give the sweep another --name")
        sweep = Sweep(name, workspace.project, stack)
    elif sweep.stack != stack:
        remedy = "Give the new sweep another --name"
        raise UserError(f"the sweep {name} is of the stack {sweep.stack}, not of {stack}", remedy=remedy)
    known = [trial.values for trial in sweep.trials]
    added = [dict(row) for row in values if dict(row) not in known]
    sweep.trials += [Trial(len(sweep.trials) + number, row) for number, row in enumerate(added, 1)]
    return sweep


def freeze(sweep: Sweep, workspace: workspaces.Workspace) -> list[str]:
    """Copy the code unless the sweep has it already; return the files that are linked instead."""
    linked: list[str] = []
    if not sweep.has_begun:
        # A command that was killed while it asked for confirmation has left a copy.
        files.remove(sweep.folder)
        origin, linked = kept_code.freeze(workspace.folder, sweep.code)
        sweep.git = origin.git
    base = workspaces.config_file(workspace, sweep.stack)
    target = workspaces.config_file(frozen_project(sweep), _base(sweep))
    if not target.exists():
        paths.private_folder(target.parent)
        files.replace(target, base.read_bytes() if base.is_file() else b"config: {}\n")
    return linked


def link_secrets(sweep: Sweep, workspace: workspaces.Workspace, secret_files: Iterable[str]) -> None:
    """Replace copied secret files, of absolute paths without links, with links to the originals."""
    code = sweep.code.resolve()
    for file in map(Path, secret_files):
        if code in file.parents and file.is_file() and not file.is_symlink():
            file.unlink()
            file.symlink_to(workspace.folder / file.relative_to(code))


def frozen_project(sweep: Sweep) -> workspaces.Workspace:
    """Return the project of the frozen code."""
    workspace = workspaces.find(sweep.code)
    assert workspace is not None, "a project was copied"
    return workspace


def _base(sweep: Sweep) -> str:
    """Return the name under which the frozen code has the settings of the stack."""
    return f".{sweep.name}-base"


def notify_command(sweep: Sweep) -> list[str]:
    """Return the words of the command of symphony:notify; empty without one."""
    return shlex.split(str(workspaces.stack_config(frozen_project(sweep), _base(sweep)).get(_NOTIFY) or ""))


def select_trial(sweep: Sweep, trial: Trial) -> SelectedStack:
    """Write the settings of a trial, and return its stack."""
    workspace, name, base = frozen_project(sweep), sweep.stack_of(trial), _base(sweep)
    text = files.read_source(workspaces.config_file(workspace, base)).decode()
    settings: dict[str, Any] = workspaces.load_yaml(text) or {}
    config: dict[str, Any] = dict(settings.get("config") or {})
    # Trials cannot share a namespace.
    config.pop("symphony:namespace", None)
    if notify_command(sweep):
        # The user is notified only of the end of the whole sweep.
        config[_NOTIFY] = ""
    config.setdefault("symphony:program", sweep.stack.partition(".")[0])
    values = overrides_of(sweep, trial)
    text = workspaces.dump_yaml({**settings, "config": {**config, **values}})
    files.replace(workspaces.config_file(workspace, name.stack), text.encode())
    return SelectedStack(name, workspace, values)


def overrides_of(sweep: Sweep, trial: Trial) -> dict[str, str]:
    """Return the settings of a trial by which its stack differs from that of the sweep."""
    return {key if ":" in key else f"{sweep.project}:{key}": text for key, text in trial.values.items()}


def begin(sweep: Sweep, *, retry: bool) -> SelectedStack:
    """Write a sweep, and return the stack of its runner.

    Stopped trials run again; retry: failed ones, too.
    """
    paths.private_folder(sweep.folder)
    with files.locked(sweep.folder / "lock", seconds=20, what=f"the sweep {sweep.name}"):
        before = read(sweep.full_name)
        # Its runner may have changed the trials meanwhile.
        trials = {trial.number: trial for trial in (before.trials if before else ())}
        sweep.trials = [trials.get(trial.number, trial) for trial in sweep.trials]
        for number, trial in enumerate(sweep.trials):
            if trial.state == "stopped" or (retry and trial.state == "failed"):
                sweep.trials[number] = Trial(trial.number, trial.values)
        sweep.generation = (before.generation if before else 0) + 1
        sweep.notified_until = before.notified_until if before else 0
        _write(sweep)
    program = sweep.folder / "runner"
    paths.private_folder(program)
    arguments = [sweep.project, sweep.name, str(sweep.generation)]
    command = [sys.executable, "-m", "symphony.cli.sweep_runner", *arguments]
    text = (
        "from symphony import Experiment\n\n"
        f"with Experiment(inherit={_variables()!r}) as experiment:\n"
        f"    experiment.new_process({PROCESS!r}, command={command!r}, restart_policy='OnFailure')\n"
    )
    files.replace(program / "__main__.py", text.encode())
    workspace = workspaces.private_workspace(sweep.project, sweep.name, main=program)
    return SelectedStack(sweep.full_name, workspace)


def _variables() -> list[str]:
    from symphony_tmux.processes.environment import RESERVED

    names = {name for name in os.environ if name.isidentifier() and name.isascii()}
    return sorted(names - {*RESERVED, *_ENGINES_OWN})


def live_trials(sweep: Sweep) -> list[stacks.Stack]:
    """Return the stacks of trials that are up: running, completed or failed, and not yet deleted."""
    started = (stacks.read(sweep.stack_of(trial)) for trial in sweep.trials if trial.state != "waiting")
    return [stack for stack in started if stack.recorded is not None]


def set_stopped(name: StackName) -> None:
    """Set the state of the trials that a deletion stopped."""
    with changing(name) as sweep:
        for trial in sweep.trials:
            if trial.state in ("starting", "running"):
                trial.state = "stopped"


def forget(sweep: Sweep) -> None:
    """Remove a sweep with its runs and its trials' runs."""
    for name in (sweep.full_name, *map(sweep.stack_of, sweep.trials)):
        runs.forget(name)
    runs.remove(sweep.folder)
