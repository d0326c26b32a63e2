"""The hold file: while it exists, the supervisor of a process does not start it, and ends it if it runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from symphony import files
from symphony.supervision import Hold, Wait
from symphony_tmux import experiment_folder, names
from symphony_tmux.processes import process_table
from symphony_tmux.processes.declared_code import DeclaredCode

NAME = names.HOLD


class ProcessHold(Hold, frozen=True, kw_only=True):
    """The hold of a process; code: the code of the plan, with which it must start."""

    code: DeclaredCode | None = None


def first(waits_for: tuple[Wait, ...], code: DeclaredCode | None = None) -> ProcessHold:
    """Return the first hold of a process that waits; the experiment's supervisor soon replaces `why`."""
    why = f"for {', '.join(map(str, waits_for))}"
    return ProcessHold(waits_for=waits_for, why=why, since=process_table.now(), code=code)


def write(folder: Path, hold: Hold) -> None:
    files.replace(folder / NAME, msgspec.json.encode(hold))


def read(folder: Path) -> ProcessHold | None:
    """Return the hold of the process with this folder; None if it has none."""
    return experiment_folder.read_json(folder / NAME, ProcessHold, limit=1 << 20)


def shown_since(held: Hold) -> float | None:
    """Return when the process began to wait, was blocked or was stopped, in seconds since the epoch."""
    since = held.since if held.shown_since is None else held.shown_since
    return None if since is None else time.time() - (process_table.now() - since)


def read_if_held(outputs: Mapping[str, Any]) -> ProcessHold | None:
    """Return the hold of the process that these outputs of a Window describe."""
    return read(Path(str(outputs["log"])).parent) if names.is_held(str(outputs["log"])) else None
