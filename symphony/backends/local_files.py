"""The secret and config files of an experiment on this machine, read for what they become."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from symphony.spec.experiment import ExperimentSpec


def sizes(spec: ExperimentSpec) -> tuple[dict[str, int], dict[str, str]]:
    """(file -> its bytes, file -> why it cannot be read) of the secret and config files."""
    result: dict[str, int] = {}
    unreadable: dict[str, str] = {}
    for file in dict.fromkeys((*spec.secrets, *spec.configs)):
        try:
            with Path(file).expanduser().open("rb") as stream:
                result[file] = stream.seek(0, 2)
        except (OSError, RuntimeError, ValueError) as error:
            unreadable[file] = (getattr(error, "strerror", None) or str(error)).lower()
    return result, unreadable


def contents(files: Iterable[str]) -> dict[str, bytes]:
    """file -> what is in it."""
    return {file: Path(file).expanduser().read_bytes() for file in files}
