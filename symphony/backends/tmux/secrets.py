"""The secret and the config files of an experiment, copied into private folders of it; expand calls it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from symphony import paths

SECRETS, CONFIGS = "secrets", "configs"


def folder(server: str, session: str, kind: str) -> Path:
    """Where the files of an experiment lie; deleting the experiment removes it."""
    return paths.experiment_folder(server, session) / kind


def copy(files: Iterable[str], home: Path) -> None:
    """Put the files into this folder, readable by the owner only; those no longer named go."""
    paths.private_folder(home)
    wanted = {Path(file).name: Path(file).expanduser() for file in files}
    for stale in home.iterdir():
        if stale.name not in wanted:
            stale.unlink()
    for name, source in wanted.items():
        _write(home / name, source.read_bytes())


def _write(target: Path, content: bytes) -> None:
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o400)
        file.write(content)
    draft.replace(target)
