"""Where the plugin is with which the engine makes resources on Kubernetes."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from symphony import paths

PROGRAM = "pulumi-resource-kubernetes"


def find(version: str) -> Path | None:
    """What the engine would run: one on PATH, else of this version in its own folder; None: it gets one."""
    if program := shutil.which(PROGRAM):
        return Path(program)
    return place(version) if place(version).exists() else None


def place(version: str) -> Path:
    """Where the engine keeps the one of a version."""
    return _folder() / f"resource-kubernetes-v{version}" / PROGRAM


def kept() -> Iterable[Path]:
    """Those of all versions that the engine keeps."""
    return _folder().glob(f"resource-kubernetes-v*/{PROGRAM}")


def is_script(program: Path) -> bool:
    """Whether it is the text of a program, as stand-ins are, and nothing compiled."""
    with program.open("rb") as file:
        return file.read(2) == b"#!"


def _folder() -> Path:
    return paths.pulumi_home() / "plugins"
