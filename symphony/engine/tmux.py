"""Installs tmux where it may."""

from __future__ import annotations

import os
import shutil

from symphony.engine.subprocess_progress import Report, Unavailable, Work
from symphony.errors import SymphonyError
from symphony_tmux.tmux import program


def ensure(report: Report) -> str:
    """The version of tmux; installed through apt-get when it is missing and we may."""
    if shutil.which("tmux") is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise SymphonyError("tmux is not on this machine", remedy=f"Run `{program.command()}`")
        _install(report)
    return program.recent()


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
