"""Where the files of an experiment and of its processes lie, and what they say."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symphony import paths

START, STATUS, LOG, LOCK = "start.json", "status.json", "log", "lock"
_ABOUT, _SERVICES = "about.json", "services.json"


@dataclass(frozen=True)
class Status:
    """What a supervisor wrote down; code: below 0 the signal that ended it, None while it has not ended."""

    attempt: int
    began: float
    pid: int | None = None
    ended: float | None = None
    code: int | None = None


def root() -> Path:
    return paths.home() / "subprocess"


def experiment(owner: str) -> Path:
    return root() / owner.replace("/", "_")


def process(owner: str, path: str) -> Path:
    return experiment(owner) / "processes" / path.replace("/", "+")


def processes(owner: str) -> Iterator[str]:
    """The paths of those that have files."""
    for folder in (experiment(owner) / "processes").glob("*"):
        yield folder.name.replace("+", "/")


def note(owner: str, name: str, services: dict[str, str]) -> None:
    """Write down whose folder it is, and the variables of all services."""
    experiment(owner).mkdir(mode=0o700, parents=True, exist_ok=True)
    (experiment(owner) / _SERVICES).write_text(json.dumps(services))
    (experiment(owner) / _ABOUT).write_text(json.dumps({"owner": owner, "name": name}))


def noted() -> Iterator[tuple[str, str]]:
    """owner and name of every experiment here."""
    for file in root().glob(f"*/{_ABOUT}"):
        about = json.loads(file.read_text())
        yield about["owner"], about["name"]


def services(owner: str) -> dict[str, str] | None:
    return _read(experiment(owner) / _SERVICES)


def started_with(owner: str, path: str) -> dict[str, Any] | None:
    return _read(process(owner, path) / START)


def status(owner: str, path: str) -> Status | None:
    """What became of the last start; None where there was none."""
    result = _read(process(owner, path) / STATUS)
    return Status(**result) if result is not None else None


def is_supervised(owner: str, path: str) -> bool:
    """Whether its supervisor lives: that holds a lock as long."""
    try:
        with (process(owner, path) / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _read(file: Path) -> Any:
    return json.loads(file.read_text()) if file.is_file() else None
