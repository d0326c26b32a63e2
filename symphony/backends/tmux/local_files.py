"""The secret and the config files of an experiment, copied into private folders of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from symphony import files as private
from symphony import paths
from symphony.backends import file_changes
from symphony.spec.experiment import ExperimentSpec

SECRETS, CONFIGS = "secrets", "configs"


def folder(server: str, session: str, kind: str) -> Path:
    """Where the files of an experiment lie; deleting the experiment removes it."""
    return paths.experiment_folder(server, session) / kind


def folders(server: str, session: str) -> tuple[Path, Path]:
    """Where the secret and the config files of an experiment lie."""
    return folder(server, session, SECRETS), folder(server, session, CONFIGS)


def digest_key() -> bytes:
    """What digests of secrets are made with, this user's own on this machine."""
    file = paths.home() / "digest-key"
    paths.new_file(file, secrets.token_hex(32))
    try:
        return private.read(file)
    except OSError:
        private.replace(file, secrets.token_hex(32).encode())
        return private.read(file)


def changed(spec: ExperimentSpec, server: str, session: str) -> tuple[str, ...]:
    """What `copy` would change, of an experiment that has its folders."""
    kinds = zip(("secret", "config"), (spec.secrets, spec.configs), folders(server, session), strict=True)
    return tuple(
        change
        for kind, files, home in kinds
        if home.is_dir()
        for change in file_changes.changes(
            kind, files, {copy.name: _content(copy) for copy in home.iterdir()}
        )
    )


def copy(files: Iterable[str], home: Path) -> None:
    """Put the files into this folder, readable by the owner only; those no longer named go."""
    private.fresh_folder(home)
    wanted = {Path(file).name: Path(file).expanduser() for file in files}
    for stale in home.iterdir():
        if stale.name not in wanted:
            private.remove(stale)
    for name, source in wanted.items():
        private.replace(home / name, private.read_source(source), mode=0o400)


def _content(copy: Path) -> bytes:
    """Return the content of a copied file; nothing where a process has put something else in its place."""
    try:
        return private.read(copy, limit=1 << 30)
    except OSError:
        return b""
