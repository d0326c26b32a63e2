"""Where the plugins are with which the engine makes resources on Kubernetes, and clusters."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from symphony import paths

KUBERNETES, GCP = "kubernetes", "gcp"


def program(name: str) -> str:
    """What the program of a plugin is called."""
    return f"pulumi-resource-{name}"


def find(name: str, version: str) -> Path | None:
    """What the engine would run: one on PATH, else of this version in its own folder; None: it gets one."""
    if executable := shutil.which(program(name)):
        return Path(executable)
    return place(name, version) if place(name, version).exists() else None


def place(name: str, version: str) -> Path:
    """Where the engine keeps the one of a version."""
    return _folder() / f"resource-{name}-v{version}" / program(name)


def kept(name: str) -> Iterable[Path]:
    """Those of all versions that the engine keeps."""
    return _folder().glob(f"resource-{name}-v*/{program(name)}")


def is_script(place: Path) -> bool:
    """Whether it is the text of a program, as stand-ins are, and nothing compiled."""
    with place.open("rb") as file:
        return file.read(2) == b"#!"


def _folder() -> Path:
    return paths.pulumi_home() / "plugins"
