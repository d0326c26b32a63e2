"""The secret and the config files of an experiment, copied into private folders of it."""

from __future__ import annotations

import secrets
from pathlib import Path

from symphony import files as private
from symphony import paths
from symphony.backends import local_files as sources
from symphony.spec.experiment import ExperimentSpec
from symphony_tmux.resource import experiment_files


def folders(server: str, session: str) -> tuple[Path, Path]:
    """Return where the secret and the config files of an experiment lie."""
    secrets_folder, configs_folder = (
        experiment_files.folder(server, session, kind) for kind in experiment_files.KINDS
    )
    return secrets_folder, configs_folder


def digest_key() -> bytes:
    """Return this user's key for digests of secrets, made where it is missing or damaged."""
    file = paths.home() / "digest-key"
    paths.new_file(file, secrets.token_hex(32))
    try:
        return private.read(file)
    except OSError:
        private.replace(file, secrets.token_hex(32).encode())
        return private.read(file)


def changed(spec: ExperimentSpec, server: str, session: str) -> tuple[str, ...]:
    """Return which of the files are others than the experiment that runs has."""
    kinds = zip(("secret", "config"), (spec.secrets, spec.configs), folders(server, session), strict=True)
    return tuple(
        change
        for kind, files, home in kinds
        if home.is_dir()
        for change in sources.changes(
            kind, files, {copy.name: experiment_files.content(copy) for copy in home.iterdir()}
        )
    )
