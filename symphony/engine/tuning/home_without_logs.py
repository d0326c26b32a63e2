"""A Pulumi home like the user's own in which the engine keeps no log of its run; run.py starts engines in it.

The engine writes every property of every resource, encrypted, to `logs` in its home: more than half of its
work for 300 pods, and no setting leaves it out. Where `logs` is no folder it goes on without. All else is the
user's own, by links: what one installs the other has.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from symphony import paths

_LOGS = "logs"
# What the engine makes where it is missing: in the user's home then, not in ours.
_MADE = ("plugins", "workspaces")


def linked_home() -> Path | None:
    """Where it lies; None to use the user's own: for a store with a login, which the engine may renew, and
    where no such home can be made.
    """
    real = paths.pulumi_home().absolute()
    if not paths.store_url().startswith("file://") or (real / _LOGS).is_file():
        return None
    place = paths.home() / f"pulumi-{hashlib.sha256(os.fsencode(real)).hexdigest()[:8]}"
    try:
        for name in _MADE:
            (real / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        paths.private_folder(place)
        (place / _LOGS).touch(mode=0o600)
        _link(place, real)
    except OSError:
        return None
    return place


def _link(place: Path, real: Path) -> None:
    """A link in place to each thing in real, and none to what is not there any more."""
    wanted = {each.name for each in real.iterdir()} - {_LOGS}
    for link in place.iterdir():
        if link.name not in wanted and link.is_symlink():
            link.unlink(missing_ok=True)
    for name in wanted:
        # Another run made it, or the engine put a file of its own there.
        with contextlib.suppress(FileExistsError):
            (place / name).symlink_to(real / name)
