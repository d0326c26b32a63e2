"""The prerequisites of experiments on Slurm: its client programs, munge, perl."""

from __future__ import annotations

import shutil
import subprocess

from symphony.backends.prerequisites import Finding


def findings() -> list[Finding]:
    """Return what experiments on Slurm need; none of it is needed elsewhere."""
    found = [_program(name) for name in ("sbatch", "squeue")]
    if all(finding.there for finding in found):
        found.append(_munge())
    return found


def _program(name: str) -> Finding:
    place = shutil.which(name) or ""
    get = "run symphony on a login node of the cluster, where Slurm's programs are"
    version = (
        _first_line([name, "--version"]).removeprefix("slurm-wlm ").removeprefix("slurm ") if place else ""
    )
    return Finding(f"{name} (optional)", bool(place), version, place, get, needed=False)


def _munge() -> Finding:
    place = shutil.which("munge") or ""
    answers = bool(place) and _first_line([place, "-n"]).startswith("MUNGE")
    get = "ask the administrators of the cluster: munge proves to Slurm who you are"
    return Finding("munge (optional)", answers, place=place, get=get, needed=False)


def _first_line(words: list[str]) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout.strip().splitlines() or [""])[0]
