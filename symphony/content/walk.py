"""Walks a folder for the files that its rules leave in; what is in folders that did not change is known."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

from symphony.content.stat_cache import StatCache, stamp_of


class Rules(Protocol):
    """Which files of a folder count.

    key: tells these rules from others.
    """

    @property
    def key(self) -> str: ...

    def within(self, folder: str) -> Rules:
        """Those that hold in a folder of it, by its absolute path with a slash at its end."""
        ...

    def leaves_out(self, path: str) -> bool:
        """Whether a file, or a folder with all in it, does not count; a folder has a slash at its end."""
        ...


def files(folder: str, rules: Rules, cache: StatCache) -> Iterator[str]:
    """The absolute paths of all files and links that count; folder: an absolute path.

    Links are not followed. OSError: a folder cannot be read.
    """
    pending = [(folder.rstrip("/") + "/", rules)]
    while pending:
        place, outer = pending.pop()
        inner = outer.within(place)
        names, folders = _listing(place, inner, cache)
        yield from (place + name for name in names)
        pending.extend((f"{place}{name}/", inner) for name in folders)


def _listing(place: str, rules: Rules, cache: StatCache) -> tuple[list[str], list[str]]:
    """The names of the files and of the folders in a folder that count."""
    facts = os.stat(place)  # noqa: PTH116 : hot path
    stamp = f"{stamp_of(facts)} {rules.key}"
    if known := cache.get(place, stamp):
        return known[0], known[1]
    names: list[str] = []
    folders: list[str] = []
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not rules.leaves_out(f"{entry.path}/"):
                    folders.append(entry.name)
            # Neither sockets nor pipes nor devices.
            elif (entry.is_symlink() or entry.is_file()) and not rules.leaves_out(entry.path):
                names.append(entry.name)
    cache.put(place, stamp, [names, folders], facts)
    return names, folders
