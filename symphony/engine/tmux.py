"""Finds tmux and installs it where it may; setup and doctor call it, the provider has its own client."""

from __future__ import annotations

import os
import shutil
import subprocess

from symphony.engine.work import Report, Unavailable, Work
from symphony.errors import SymphonyError
from symphony_tmux.client import NEWER
from symphony_tmux.client import is_recent as is_recent


def ensure(report: Report) -> str:
    """The version of tmux; installed through apt-get when it is missing and we may."""
    if shutil.which("tmux") is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise SymphonyError("tmux is not on this machine", remedy=f"Run `{command()}`")
        _install(report)
    found = version()
    if not is_recent(found):
        raise SymphonyError(f"tmux {found} is too old", remedy=NEWER)
    return found


def command() -> str:
    """The one command that installs tmux here."""
    if shutil.which("apt-get"):
        return ("" if os.geteuid() == 0 else "sudo ") + "apt-get install tmux"
    return "brew install tmux" if shutil.which("brew") else "your package manager's install of tmux"


def version() -> str:
    """What `tmux -V` says, without its name."""
    try:
        done = subprocess.run(["tmux", "-V"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SymphonyError("tmux does not start", remedy=f"Run `{command()}`") from error
    return done.stdout.removeprefix("tmux").strip()


def _install(report: Report) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with Work("tmux: installing with apt-get", report) as work:
        install = ["apt-get", "install", "-y", "--no-install-recommends", "tmux"]
        if work.run(install, env=env, check=False) != 0:
            work.run(["apt-get", "update"], env=env, check=False)
            try:
                work.run(install, env=env)
            except Unavailable as reason:
                raise SymphonyError(f"tmux cannot be installed: {reason}") from reason
