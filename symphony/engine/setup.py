"""Gets the engine when it is missing and says how far it is.

The order: PATH, our cache, Pulumi's own installer, Go modules. What is built appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Generator
from pathlib import Path

from symphony import files, paths
from symphony.engine import binary, gobuild
from symphony.engine.binary import Engine
from symphony.engine.subprocess_progress import DEADLINE, Report, Unavailable, Work, WorkProgress
from symphony.errors import SymphonyError

INSTALLER = "https://get.pulumi.com/install.sh"
CONNECT_TIMEOUT = 5.0


def engine(report: Report) -> Engine:
    """The engine; the first way to get it that works."""
    if (result := binary.find()) is not None:
        binary.check_age(result)
        return result
    with _alone(report):
        if (result := binary.find()) is not None:
            return result
        _remove_unfinished()
        reasons: list[str] = []
        for way in (_from_installer, _from_go):
            try:
                way(report)
                break
            except Unavailable as reason:
                reasons.append(str(reason))
        result = binary.find()
    if result is None:
        raise SymphonyError(
            "could not install the Pulumi CLI: " + "; ".join(reasons),
            remedy="Install Pulumi (pulumi.com/docs/install) or Go 1.26 (go.dev/dl), then `symphony setup`",
        )
    return result


def _from_installer(report: Report) -> None:
    """Pulumi's own installer, into a folder of ours; gives up at once when its host cannot be reached."""
    with Work("engine: fetching with Pulumi's installer", report) as work, _building() as folder:
        try:
            with urllib.request.urlopen(INSTALLER, timeout=CONNECT_TIMEOUT) as answer:
                script: bytes = answer.read()
        except (OSError, ValueError) as error:
            raise Unavailable(f"{INSTALLER} cannot be reached") from error
        file = folder / "install.sh"
        file.write_bytes(script)
        root = folder / "root"
        version = ["--version", binary.VERSION]
        work.run(["sh", str(file), "--no-edit-path", "--install-root", str(root), *version], cwd=folder)
        _keep(root / "bin")


def _from_go(report: Report) -> None:
    gobuild.usable_go()
    with _building() as folder:
        _keep(gobuild.build(folder, report))


def _keep(made: Path) -> None:
    """Check what was made and put it where find() looks, in one step."""
    for part in made.iterdir():
        part.chmod(0o755)
    missing = [part for part in binary.PARTS if not (made / part).exists()]
    if missing:
        raise Unavailable(f"the build lacks {missing[0]}")
    binary.version(Engine(made / "pulumi", "new"))
    target = binary.cache_folder()
    shutil.rmtree(target, ignore_errors=True)
    made.rename(target)


@contextlib.contextmanager
def _alone(report: Report) -> Generator[None]:
    """Hold the lock of the cache; a second set-up waits for the first and says so."""
    lock = paths.cache() / "setup.lock"
    try:
        held = files.acquire(lock, seconds=0, what="set-up")
    except SymphonyError:
        report(WorkProgress("engine: waiting for another set-up", 0, 0, 0))
        held = files.acquire(lock, seconds=DEADLINE, what="set-up")
    try:
        yield
    finally:
        os.close(held)


@contextlib.contextmanager
def _building() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="building-", dir=paths.cache()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_unfinished() -> None:
    """What a killed set-up left; we hold the lock, so nobody works on it."""
    for folder in paths.cache().glob("building-*"):
        shutil.rmtree(folder, ignore_errors=True)
