"""Which of the files that processes are given are others than those that the running experiment has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from symphony.files import read_source


def changes(kind: str, files: Iterable[str], there: Mapping[str, bytes]) -> Iterator[str]:
    """`secret key.txt changed` for each; there: what the experiment has, by name."""
    wanted: dict[str, bytes | None] = {Path(file).name: _content(file) for file in files}
    for name in dict.fromkeys((*wanted, *there)):
        if name not in wanted:
            yield f"{kind} {name} removed"
        elif name not in there:
            yield f"{kind} {name} added"
        # What cannot be read is reported by a rule.
        elif wanted[name] not in (None, there[name]):
            yield f"{kind} {name} changed"


def _content(file: str) -> bytes | None:
    with suppress(OSError, RuntimeError, ValueError):
        return read_source(Path(file).expanduser())
    return None
