"""Checks the tmux program of this machine: its version, and how to install it."""

from __future__ import annotations

import os
import re
import subprocess

from symphony.errors import SymphonyError

MISSING = "tmux is not installed"
_OLDEST = (3, 2)


def supported_version() -> str:
    """Return the version of tmux, if symphony supports it.

    Raises:
        SymphonyError: tmux does not start, or is too old.
    """
    result = version()
    if not is_recent(result):
        oldest = ".".join(map(str, _OLDEST))
        raise SymphonyError(
            f"tmux {result} is too old",
            where=_which("tmux"),
            remedy=f"Install tmux {oldest} or newer, as your system's package or from source",
        )
    return result


def version() -> str:
    """Return the version that `tmux -V` prints.

    Raises:
        SymphonyError: tmux is not installed, or does not start.
    """
    try:
        result = subprocess.run(["tmux", "-V"], capture_output=True, text=True, timeout=10, check=True)
    except FileNotFoundError:
        raise SymphonyError(MISSING, remedy=f"To install tmux, {install_step()}") from None
    except (OSError, subprocess.SubprocessError) as error:
        remedy = f"Correct that, or install tmux again: {install_step()}"
        raise SymphonyError(f"tmux does not start: {error}", where=_which("tmux"), remedy=remedy) from error
    return result.stdout.removeprefix("tmux").strip()


def is_recent(version: str) -> bool:
    """Return whether symphony supports a version, such as 3.3a, next-3.6 or master."""
    match = re.search(r"(\d+)\.(\d+)", version)
    return match is None or (int(match[1]), int(match[2])) >= _OLDEST


def install_step() -> str:
    """Return how to install tmux here: "run `sudo apt-get install tmux`"."""
    if _which("apt-get"):
        return f"run `{'' if os.geteuid() == 0 else 'sudo '}apt-get install tmux`"
    return "run `brew install tmux`" if _which("brew") else "use your package manager"


def _which(name: str) -> str:
    # Imported here: only errors need it.
    import shutil

    return shutil.which(name) or ""
