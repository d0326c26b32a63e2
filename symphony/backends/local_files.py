"""Reads the secret and config files of an experiment, and compares them with those that it runs with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from symphony import files
from symphony.spec.experiment import ExperimentSpec


def sizes(spec: ExperimentSpec) -> tuple[dict[str, int], dict[str, str]]:
    """Return the bytes of each secret and config file, and for others why they cannot be read."""
    readable: dict[str, int] = {}
    unreadable: dict[str, str] = {}
    for file in dict.fromkeys((*spec.secrets, *spec.configs)):
        try:
            with files.open_regular(Path(file).expanduser(), follow=True) as stream:
                readable[file] = stream.seek(0, 2)
        except (OSError, RuntimeError, ValueError) as error:
            unreadable[file] = (getattr(error, "strerror", None) or str(error)).lower()
    return readable, unreadable


def contents(names: Iterable[str]) -> dict[str, bytes]:
    """Return the content of each file."""
    return {name: files.read_source(Path(name).expanduser()) for name in names}


def changes(kind: str, names: Iterable[str], live: Mapping[str, bytes]) -> Iterator[str]:
    """Yield `secret key.txt changed` for each file that is other than in the running experiment.

    Args:
        kind: `secret` or `config`.
        names: The files that the program names.
        live: The contents that the running experiment has, by file name.
    """
    declared = {Path(name).name: name for name in names}
    for name in dict.fromkeys((*declared, *live)):
        if name not in declared:
            yield f"{kind} {name} removed"
        elif name not in live:
            yield f"{kind} {name} added"
        else:
            # A rule reports the files that cannot be read.
            with suppress(OSError, RuntimeError, ValueError):
                if contents([declared[name]])[declared[name]] != live[name]:
                    yield f"{kind} {name} changed"
