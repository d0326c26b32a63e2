"""The passphrase for the secrets of our own store: a generated private file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from symphony import paths
from symphony.errors import SymphonyError

BY_USER = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")


def variables(url: str) -> dict[str, str]:
    """The variable that names our passphrase file; none if the user set one or the store is not ours."""
    if any(name in os.environ for name in BY_USER) or url != own_store():
        return {}
    return {"PULUMI_CONFIG_PASSPHRASE_FILE": str(ensure())}


def own_store() -> str:
    """The address of the per-user store that symphony keeps itself."""
    return f"file://{paths.home() / 'state'}"


def ensure() -> Path:
    """The passphrase file, made at the first call; two callers at once end up with the same one."""
    path = paths.home() / "passphrase"
    if path.exists() and path.stat().st_size:
        return path
    try:
        _forget_empty(path)
        paths.new_file(path, secrets.token_urlsafe(32))
    except OSError as error:
        raise SymphonyError(
            f"the passphrase file cannot be written: {error.strerror}",
            where=str(path),
            remedy="Make its folder writable or set PULUMI_CONFIG_PASSPHRASE",
        ) from error
    return path


def _forget_empty(path: Path) -> None:
    """What a power loss left; the secrets that it opened are lost with it."""
    if path.exists() and not path.stat().st_size:
        path.unlink()
