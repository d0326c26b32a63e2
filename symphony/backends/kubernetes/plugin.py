"""Finds the plugin with which the engine makes resources on Kubernetes; needs asks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

PROGRAM = "pulumi-resource-kubernetes"


def find(version: str) -> Path | None:
    """What the engine would run: one on PATH, else of this version in its own folder; None: it gets one."""
    if found := shutil.which(PROGRAM):
        return Path(found)
    home = os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi"
    place = Path(home) / "plugins" / f"resource-kubernetes-v{version}" / PROGRAM
    return place if place.exists() else None


def is_script(program: Path) -> bool:
    """Whether it is the text of a program, as stand-ins are, and nothing compiled."""
    with program.open("rb") as file:
        return file.read(2) == b"#!"
