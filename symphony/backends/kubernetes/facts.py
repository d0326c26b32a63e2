"""The secret files of an experiment on this machine, read for the Secret they become; expand asks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from symphony.spec.experiment import ExperimentSpec


def sizes(spec: ExperimentSpec) -> tuple[dict[str, int], dict[str, str]]:
    """(file -> its bytes, file -> why it cannot be read) of the secret files."""
    found: dict[str, int] = {}
    unreadable: dict[str, str] = {}
    for file in spec.secrets:
        try:
            with Path(file).expanduser().open("rb") as stream:
                found[file] = stream.seek(0, 2)
        except (OSError, RuntimeError, ValueError) as error:
            unreadable[file] = (getattr(error, "strerror", None) or str(error)).lower()
    return found, unreadable


def contents(files: Iterable[str]) -> dict[str, bytes]:
    """name -> what is in the file."""
    return {file.rpartition("/")[2]: Path(file).expanduser().read_bytes() for file in files}
