"""The lines of logs, merged by time, and what is appended to them."""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Iterator, Sequence

from symphony.backends.observe import LogLine
from symphony_subprocess import folders

_PAUSE = 0.1


def merged(
    owner: str, paths: Sequence[str], *, follow: bool, since: float, tail: int | None
) -> Iterator[LogLine]:
    """Those there are; with follow, those to come until all have ended."""
    seen = {path: of(owner, path) for path in paths}
    recent = [[line for line in lines if (line.time or 0) >= since] for lines in seen.values()]
    last = recent if tail is None else [lines[len(lines) - min(tail, len(lines)) :] for lines in recent]
    yield from heapq.merge(*last, key=lambda line: line.time or 0)
    while follow:
        follow = any(folders.is_supervised(owner, path) for path in paths)
        for path in paths:
            lines = of(owner, path)
            yield from lines[len(seen[path]) :]
            seen[path] = lines
        time.sleep(_PAUSE)


def of(owner: str, path: str) -> list[LogLine]:
    """The whole lines of one process."""
    try:
        text = (folders.process(owner, path) / folders.LOG).read_text()
    except FileNotFoundError:
        return []
    return [
        LogLine(path, **json.loads(line)) for line in text.splitlines(keepends=True) if line.endswith("\n")
    ]
