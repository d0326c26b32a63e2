"""What the user's program handed over while the engine ran it: the plan, or problems; up reads it."""

from __future__ import annotations

import fcntl
import json
import shutil
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symphony import paths
from symphony.errors import SymphonyError
from symphony.plan.merge_env import whole
from symphony.plan.problems import PlanError, Problem
from symphony.spec.location import Location

_PREFIX = "plan-"
_OWNER = "owner"
_MOMENT = 2.0


@dataclass(frozen=True)
class Handed:
    """The plan as plain values, and the inputs of each process as its backend renders them."""

    plan: Mapping[str, Any]
    inputs: Mapping[str, Mapping[str, Any]]
    unused: tuple[str, ...]

    @property
    def backend(self) -> str:
        return str(self.plan["backend"])


class Inbox:
    """Where one run of the program puts its plan."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.environment = {paths.PLAN_FILE_VARIABLE: str(file)}

    def take_new(self) -> Handed | None:
        """What was handed over, as soon as it is there; None before."""
        return self.take() if self.file.exists() else None

    def take(self) -> Handed | None:
        """What was handed over; None when nothing was.

        PlanError: the program has problems. SymphonyError: what it asked of its backend failed.
        """
        try:
            data = json.loads(self.file.read_text())
        except FileNotFoundError:
            return None
        if "failure" in data:
            failure = data["failure"]
            raise SymphonyError(failure["what"], where=failure["where"], remedy=failure["remedy"])
        if "problems" in data:
            raise PlanError(data["experiment"], [_problem(each) for each in data["problems"]])
        return Handed(whole(data["plan"]), data["inputs"], tuple(data["unused"]))


@contextmanager
def inbox() -> Generator[Inbox]:
    """A private place for the plan, gone afterwards: it holds the values of environment variables.

    What a killed command left of that kind goes as well.
    """
    home = paths.private_folder(paths.home())
    _sweep(home)
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, dir=home) as folder,
        (Path(folder) / _OWNER).open("w") as owner,
    ):
        # The kernel lets go of it however this process ends.
        fcntl.flock(owner, fcntl.LOCK_EX)
        yield Inbox(Path(folder) / "plan.json")


def _sweep(home: Path) -> None:
    for folder in home.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Whether nobody holds it any more; a moment after it was made its owner does not hold it yet."""
    if time.time() - folder.stat().st_mtime < _MOMENT:
        return False
    try:
        with (folder / _OWNER).open() as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _problem(data: Mapping[str, Any]) -> Problem:
    places = tuple(Location(place["file"], place["line"]) for place in data["where"])
    return Problem(data["what"], data["remedy"], places)
