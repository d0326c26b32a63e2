"""Finds Pulumi's own plugin of a name; where there is one its stand-in steps aside."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from symphony.backends.kubernetes import plugin

# What the program of every copy of this repository says, and no real plugin does.
_MARK = b"-m toolchain.plugin_"


def own(name: str = plugin.KUBERNETES) -> Path:
    """The program of our stand-in."""
    return Path(__file__).parent.parent / f"plugin_{name}" / "bin" / plugin.program(name)


OWN = own()


def find(name: str = plugin.KUBERNETES) -> Path | None:
    """The newest real plugin in PULUMI_HOME, else one on PATH."""
    installed = sorted(plugin.kept(name), key=_version)
    on_path = [
        shutil.which(plugin.program(name), path=folder)
        for folder in os.environ.get("PATH", "").split(os.pathsep)
    ]
    candidates = [*reversed(installed), *(Path(each) for each in on_path if each)]
    return next((each for each in candidates if not is_stand_in(each)), None)


def is_stand_in(program: Path) -> bool:
    """Whether it starts a stand-in, of this copy of the repository or another one, or leads nowhere."""
    try:
        with program.open("rb") as file:
            return _MARK in file.read(4096)
    except OSError:
        return not program.exists()


def _version(program: Path) -> tuple[int, ...]:
    text = program.parent.name.rpartition("-v")[2].partition("-")[0].partition("+")[0]
    return tuple(int(part) for part in text.split(".") if part.isdecimal())
