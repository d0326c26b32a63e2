"""Fill the disk of symphony's folder, at a random moment and to a random byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.chaos.trial import STACK, Outcome, Trial

MEGABYTES = 6


def disks(trial: Trial) -> Iterator[Outcome]:
    """Fill the disk during an up, a change and a delete; one plain run with free space repairs everything."""
    with _small_disk(trial.sandbox.home) as disk:
        for phase, verb in trial.phases():
            disturbance, code = _fill(trial, disk, verb, phase)
            if not (code == 0 and verb == "delete"):
                trial.run(verb, STACK, "-y")
            yield trial.judge(disturbance, deleted=verb == "delete")


def _fill(trial: Trial, disk: Path, verb: str, phase: str) -> tuple[str, int]:
    left = trial.random.choice([0, trial.random.randrange(1, 20_000)])
    moment = trial.random.random() * 2
    filler = disk / "filler"
    with trial.sandbox.start(trial.command(verb)) as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        facts = os.statvfs(disk)
        with suppress(OSError):
            filler.write_bytes(b"x" * max(0, facts.f_bavail * facts.f_frsize - left))
        trial.finish(process, f"{phase} on a full disk")
    if process.returncode == 0:
        outcome = trial.judge(f"{phase} ended with 0", deleted=verb == "delete")
        assert outcome.survived, str(outcome)
    filler.unlink()
    return f"{left} bytes of the disk left {moment:.1f} s into {phase}", process.returncode


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    assert not os.getuid(), "only root can mount a small disk"
    folder.mkdir(mode=0o700)
    size = f"size={MEGABYTES}m,mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
