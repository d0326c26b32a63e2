"""Reads secret and config files, and compares them with the running experiment's copies."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from symphony import files
from symphony.spec.experiment import ExperimentSpec


def sizes(spec: ExperimentSpec) -> tuple[dict[str, int], dict[str, str]]:
    """Return the sizes of the readable secret and config files, and why the others cannot be read."""
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
    """Yield `secret key.txt changed` for each file that differs from the running experiment's.

    Args:
        kind: `secret` or `config`.
        names: The paths of the files in the program.
        live: The contents in the running experiment, by file name.
    """
    declared = {Path(name).name: name for name in names}
    for name in dict.fromkeys((*declared, *live)):
        if name not in declared:
            yield f"{kind} {name} removed"
        elif name not in live:
            yield f"{kind} {name} added"
        else:
            # The rule files_are_readable reports unreadable files.
            with suppress(OSError, RuntimeError, ValueError):
                if contents([declared[name]])[declared[name]] != live[name]:
                    yield f"{kind} {name} changed"
