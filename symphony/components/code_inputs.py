"""Reads the files that `code=` names, and their digests, at launch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from symphony import paths
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.shared import CodeFiles


def with_code_files(spec: ExperimentSpec, folder: Path) -> ExperimentSpec:
    """Return the spec with the files of its code; entries are relative to `folder`, the project folder."""
    declared = dict.fromkeys(entry for _, owner in spec.owners() for entry in owner.code)
    return replace(spec, code_files=files_of(declared, folder)) if declared else spec


def files_of(declared: Iterable[str], folder: Path) -> dict[str, CodeFiles]:
    """Return the files of every entry of `code=`."""
    return {entry: _files_of(entry, str(folder)) for entry in declared}


def _files_of(entry: str, folder: str) -> CodeFiles:
    # Imported here: most experiments declare no code.
    from symphony.content import code_files

    try:
        if files := code_files.files_of(entry, folder):
            return CodeFiles(files)
        exists = code_files.exists(entry, folder)
    except (OSError, RuntimeError, ValueError) as error:
        return CodeFiles(trouble=f"cannot be read: {getattr(error, 'strerror', None) or error}".lower())
    if entry.startswith("..") and paths.project_of_copy(Path(folder)):
        trouble = "sweeps and `up --run` run a copy of the project, which lacks what is above the project"
    elif exists:
        trouble = "no file matches, or .gitignore and .symphonyignore exclude all"
    else:
        trouble = "it does not exist"
    return CodeFiles(trouble=trouble)
