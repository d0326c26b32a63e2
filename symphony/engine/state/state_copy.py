"""Keeps a copy of each stack's state file, and puts it back where the file is not what the engine wrote.

The engine notes the MD5 of every file beside it, and never looks at it again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
import warnings
from contextlib import suppress
from pathlib import Path

from symphony import paths
from symphony_tmux import files


def is_intact(file: Path) -> bool:
    """Whether the file is what was written last; True where nothing tells. OSError: there is no such file."""
    data, before = file.read_bytes(), None
    # An engine at work copies the file, replaces its note, then the file, perhaps between two looks.
    while data != before:
        if _noted(file) in (None, _md5(data)) or data in (_read(_backup(file)), _kept(file)):
            return True
        data, before = file.read_bytes(), data
    return False


def keep(file: Path) -> None:
    """Copy what the engine has just written; without room for it the last copy stays."""
    with suppress(OSError):
        data = file.read_bytes()
        if _noted(file) in (None, _md5(data)) and data != _kept(file) and _is_state(data):
            paths.private_folder(_copy(file).parent)
            files.replace(_copy(file), hashlib.sha256(data).hexdigest().encode() + b"\n" + data, durable=True)


def restore(file: Path, stack: str) -> bytes | None:
    """Put a copy in the place of a damaged state, which stays beside it; None where there is none.

    Ours is of the last run that ended; the engine's is later where a run was killed, or its disk is full.
    """
    copies = {_copy(file): _kept(file), _backup(file): _read(_backup(file))}
    whole = {place: data for place, data in copies.items() if data is not None and _is_state(data)}
    if not whole:
        return None
    try:
        changed = {place: place.stat().st_mtime for place in whole}
        latest = max(changed, key=lambda place: changed[place])
        damaged = file.with_name(f"{file.name}.damaged")
        files.replace(damaged, file.read_bytes())
        files.replace(_note(file), json.dumps({"md5": _md5(whole[latest])}).encode())
        files.replace(file, whole[latest], durable=True)
    except OSError:
        return None
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(changed[latest]))
    warnings.warn(
        f"the state of {stack} was damaged and is now its copy of {when} ({damaged} is the damaged one)."
        f" Run `symphony up {stack}` if it has changed since.",
        stacklevel=2,
    )
    return whole[latest]


def _is_state(data: bytes) -> bool:
    try:
        return bool(json.loads(data)["checkpoint"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _kept(file: Path) -> bytes | None:
    digest, _, data = (_read(_copy(file)) or b"").partition(b"\n")
    return data if hashlib.sha256(data).hexdigest().encode() == digest else None


def _noted(file: Path) -> str | None:
    """The MD5 that the engine noted; None where it did not, or the note is half a one."""
    try:
        noted = json.loads(_read(_note(file)) or b"")["md5"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return noted if isinstance(noted, str) else None


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _copy(file: Path) -> Path:
    return paths.home() / "copies" / paths.store_id() / file.parent.name / file.name


def _note(file: Path) -> Path:
    return file.with_name(f"{file.name}.attrs")


def _backup(file: Path) -> Path:
    """The copy that the engine makes before it writes."""
    return file.with_name(f"{file.name}.bak")


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
