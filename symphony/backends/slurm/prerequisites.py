"""The prerequisites of the Slurm backend: Slurm's client programs, munge, a shared folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from symphony import files, paths
from symphony.backends.registry import Finding
from symphony.errors import SymphonyError
from symphony_slurm import commands


def findings() -> list[Finding]:
    """Return the prerequisites, which only experiments on Slurm need."""
    found = [_program(name) for name in ("sbatch", "squeue")]
    if not all(finding.there for finding in found):
        return found
    try:
        configuration = commands.call("", ["scontrol", "show", "config"])
    except SymphonyError as error:
        return [*found, Finding("slurmctld (optional)", False, get=error.what, needed=False)]
    return [*found, _munge(configuration), _shared_folder()]


def _program(name: str) -> Finding:
    place = shutil.which(name) or ""
    remedy = "run symphony on a login node of the cluster, where Slurm's programs are"
    version = (
        _first_line([name, "--version"]).removeprefix("slurm-wlm ").removeprefix("slurm ") if place else ""
    )
    return Finding(f"{name} (optional)", bool(place), version, place, remedy, needed=False)


def _munge(configuration: str) -> Finding:
    place = shutil.which("munge") or ""
    # Empty if munge has its usual socket.
    named = re.search(r"^AuthInfo\s*=.*socket=([^,\s]+)", configuration, re.MULTILINE)
    options = [f"--socket={named[1]}"] if named else []
    answers = bool(place) and _first_line([place, *options, "-n"]).startswith("MUNGE")
    remedy = "ask the administrators of the cluster to set up munge, which authenticates you to Slurm"
    return Finding("munge (optional)", answers, place=place, get=remedy, needed=False)


def _shared_folder() -> Finding:
    """Return whether a node can write to the default folder of experiments; not tried if Slurm gives none."""
    place = paths.home() / "slurm"
    name = "shared folder (optional)"
    remedy = "set symphony:sharedFolder to a folder that the nodes see; doctor checks only the default"
    # The folder does not exist before the first `up`.
    existing = next(folder for folder in (place, *place.parents) if folder.is_dir())
    file = existing / f".symphony-doctor.{os.getpid()}"
    words = ["srun", "--quiet", "--immediate=5", "--time=1", "-N1", "-n1", "--chdir=/", "touch", str(file)]
    try:
        done = subprocess.run(
            words, env=commands.environment(""), capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return Finding(name, False, "Slurm does not answer", str(place), remedy, needed=False)
    finally:
        is_there = file.exists()
        files.remove(file)
    if "Unable to allocate resources" in done.stderr:
        return Finding(name, True, "not checked: Slurm gave no node", str(place), remedy, needed=False)
    return Finding(name, is_there, "", str(place), remedy, needed=False)


def _first_line(words: list[str]) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout.strip().splitlines() or [""])[0]
