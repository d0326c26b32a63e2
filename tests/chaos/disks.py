"""Fills the disk of everything that symphony keeps, at a random moment and to a random byte."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.chaos.trial import DEADLINE, STACK, Trial, Try, first_processes

MEGABYTES = 6


def disks(trial: Trial) -> Iterator[Try]:
    """It fills during an up, a change and a delete; with room again one plain run puts all right."""
    with _small_disk(trial.sandbox.home) as disk:
        trial.declare(first_processes())
        for phase in ("up", "change", "delete"):
            if phase == "change":
                trial.change()
            verb = "delete" if phase == "delete" else "up"
            what, code = _fill(trial, disk, verb, phase)
            if not (code == 0 and verb == "delete"):
                trial.run(verb, STACK, "-y")
            yield trial.judged(what, deleted=verb == "delete")


def _fill(trial: Trial, disk: Path, verb: str, phase: str) -> tuple[str, int]:
    began = time.monotonic()
    left = trial.random.choice([0, trial.random.randrange(1, 20_000)])
    moment = trial.random.random() * 2
    filler = disk / "filler"
    with trial.sandbox.start(trial.command(verb)) as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        facts = os.statvfs(disk)
        size = max(0, facts.f_bavail * facts.f_frsize - left)
        with suppress(OSError):
            filler.write_bytes(b"x" * size)
        try:
            out, err = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"{phase} did not end within {DEADLINE} s on a full disk") from None
    assert "Traceback" not in out + err, out + err
    trial.longest = max(trial.longest, time.monotonic() - began)
    if process.returncode == 0:
        verdict = trial.judged(phase, deleted=verb == "delete")
        assert verdict.survived, f"{phase} said it is done: {verdict}"
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
