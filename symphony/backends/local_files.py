"""The secret and config files of an experiment on this machine, read for what they become."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from symphony import files
from symphony.spec.experiment import ExperimentSpec


def sizes(spec: ExperimentSpec) -> tuple[dict[str, int], dict[str, str]]:
    """(file -> its bytes, file -> why it cannot be read) of the secret and config files."""
    result: dict[str, int] = {}
    unreadable: dict[str, str] = {}
    for file in dict.fromkeys((*spec.secrets, *spec.configs)):
        try:
            with files.open_regular(Path(file).expanduser(), follow=True) as stream:
                result[file] = stream.seek(0, 2)
        except (OSError, RuntimeError, ValueError) as error:
            unreadable[file] = (getattr(error, "strerror", None) or str(error)).lower()
    return result, unreadable


def contents(names: Iterable[str]) -> dict[str, bytes]:
    """Return file -> its content."""
    return {name: files.read_source(Path(name).expanduser()) for name in names}
