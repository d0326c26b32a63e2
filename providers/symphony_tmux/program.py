"""The tmux of this machine: its version and the command that gets it; setup and doctor ask."""

from __future__ import annotations

import os
import shutil
import subprocess

from symphony.errors import SymphonyError


def version() -> str:
    """What `tmux -V` says, without its name."""
    try:
        done = subprocess.run(["tmux", "-V"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SymphonyError("tmux does not start", remedy=f"Run `{command()}`") from error
    return done.stdout.removeprefix("tmux").strip()


def command() -> str:
    """The one command that installs tmux here."""
    if shutil.which("apt-get"):
        return ("" if os.geteuid() == 0 else "sudo ") + "apt-get install tmux"
    return "brew install tmux" if shutil.which("brew") else "your package manager's install of tmux"
