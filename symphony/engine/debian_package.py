"""Installs a Debian package where it may."""

from __future__ import annotations

import os
import shutil

from symphony.engine.subprocess_progress import Report, Unavailable, Work
from symphony.errors import SymphonyError


def install(package: str, report: Report) -> bool:
    """Whether it could be tried: by root, where there is apt-get. SymphonyError: that failed."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with Work(f"{package}: installing with apt-get", report) as work:
        install = ["apt-get", "install", "-y", "--no-install-recommends", package]
        if work.run(install, env=env, check=False) != 0:
            work.run(["apt-get", "update"], env=env, check=False)
            try:
                work.run(install, env=env)
            except Unavailable as reason:
                raise SymphonyError(f"{package} cannot be installed: {reason}") from reason
    return True
