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
from typing import Any, cast

from symphony import files, paths


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
    """Copy what the engine has just written, of a stack with nothing left in it no copy.

    Without room for it the last copy stays.
    """
    with suppress(OSError):
        data = file.read_bytes()
        checkpoint = _checkpoint(data) if _noted(file) in (None, _md5(data)) else {}
        latest: dict[str, Any] = checkpoint.get("latest") or {}
        if checkpoint and not latest.get("resources"):
            _copy(file).unlink(missing_ok=True)
            _damaged(file).unlink(missing_ok=True)
        elif checkpoint and data != _kept(file):
            paths.private_folder(_copy(file).parent)
            files.replace(_copy(file), hashlib.sha256(data).hexdigest().encode() + b"\n" + data, durable=True)


def restore(file: Path, stack: str) -> bytes | None:
    """Put a copy in the place of a damaged state, which stays beside it; None where there is none.

    Ours is of the last run that ended; the engine's is later where a run was killed, or its disk is full.
    """
    copies = {_copy(file): _kept(file), _backup(file): _read(_backup(file))}
    whole = {place: data for place, data in copies.items() if data is not None and _checkpoint(data)}
    if not whole:
        return None
    try:
        changed = {place: place.stat().st_mtime for place in whole}
        latest = max(changed, key=lambda place: changed[place])
        files.replace(_damaged(file), file.read_bytes())
        files.replace(_note(file), json.dumps({"md5": _md5(whole[latest])}).encode())
        files.replace(file, whole[latest], durable=True)
    except OSError:
        return None
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(changed[latest]))
    warnings.warn(
        f"the state of {stack} was damaged: symphony restored its copy of {when}. Run `symphony up {stack}`"
        f" if it has changed since; {_damaged(file)} is the damaged one.",
        stacklevel=2,
    )
    return whole[latest]


def set_aside(file: Path, stack: str) -> bool:
    """Move away a state in which nothing is written, so that the stack is one that was never brought up."""
    try:
        if not _is_blank(file.read_bytes()):
            return False
        file.replace(_damaged(file))
        _note(file).unlink(missing_ok=True)
    except OSError:
        return False
    warnings.warn(
        f"the state of {stack} was empty and has no copy. `symphony up {stack}` takes over what still runs;"
        f" {_damaged(file)} is the empty one.",
        stacklevel=2,
    )
    return True


def _is_blank(data: bytes) -> bool:
    """Whether a state is an empty file, or what the engine makes of one: version 0, and no resources."""
    try:
        return not data.strip(b"\0\n") or json.loads(data)["version"] == 0
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _checkpoint(data: bytes) -> dict[str, Any]:
    """What a state holds, nothing where it is none."""
    try:
        result: object = {} if _is_blank(data) else json.loads(data)["checkpoint"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return cast("dict[str, Any]", result) if isinstance(result, dict) else {}


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


def _damaged(file: Path) -> Path:
    return file.with_name(f"{file.name}.damaged")


def _backup(file: Path) -> Path:
    """The copy that the engine makes before it writes."""
    return file.with_name(f"{file.name}.bak")


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
