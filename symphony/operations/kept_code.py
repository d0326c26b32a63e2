"""Copies of a project's code; files that ignore rules exclude are links to the originals.

A copy runs like the project, since it links to the data and the virtualenv, but edits do not change it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from symphony import files, paths
from symphony.engine import workspace
from symphony.errors import UserError
from symphony.operations import git
from symphony.plan.names import listed

if TYPE_CHECKING:
    from symphony.content.ignore_files import IgnoreRules

# A larger file counts as data. A project with more bytes or files is not kept: each file is searched for
# credentials once, and 20 MB take two seconds.
LARGEST, MOST_BYTES, MOST_FILES = 1_000_000, 20_000_000, 2_000


class Origin(msgspec.Struct):
    """The origin of a copy that programs run from, in a file beside it.

    Attributes:
        code: The kept copy from which this one was made, which is missing if git restored this one; this one
            itself if it was made from the project.
        folder: The project.
        images: name -> `repository@sha256:...` of the images that its programs run instead of building them.
    """

    code: str
    folder: str
    git: git.Git | None = None
    images: dict[str, str] = {}


def origin(folder: Path) -> Origin | None:
    """Return the origin of a copy in symphony's folder; None for a project of the user."""
    if paths.home() not in folder.parents:
        return None
    try:
        return msgspec.json.decode(files.read_source(folder.parent / paths.ORIGIN), type=Origin)
    except (OSError, ValueError):
        return None


def set_images(code: Path, images: Mapping[str, str]) -> None:
    """Set the images that the programs in a copy run."""
    recorded = origin(code)
    if recorded is not None and recorded.images != images:
        recorded.images = dict(images)
        files.replace(code.parent / paths.ORIGIN, msgspec.json.encode(recorded))


def freeze(folder: Path, to: Path, source: Origin | None = None) -> tuple[Origin, list[str]]:
    """Make a copy to run from, and return its origin and which files are only linked.

    Args:
        folder: The project, or the kept code of a run.
        to: The folder for the copy, which must not exist.
        source: The origin of kept code.

    Raises:
        UserError: Too many files are not ignored.
    """
    paths.private_folder(to.parent)
    draft = to.with_name(f"{to.name}.new")
    files.remove(draft)
    missing = keep(folder, draft)
    if too_much := [line for line in missing if line.startswith("the code")]:
        remedy = "List data files in .gitignore or .symphonyignore"
        raise UserError(too_much[0], where=str(folder), remedy=remedy)
    source = source or Origin(str(to), str(folder), git.state(folder)[0])
    files.replace(to.parent / paths.ORIGIN, msgspec.json.encode(source))
    draft.rename(to)
    return source, missing


def restore(source: Origin, commit: str, diff: Path, to: Path) -> None:
    """Make a copy to run from out of git: a commit, a diff to it, and links to all that a commit lacks.

    Args:
        source: The origin of the copy.
        commit: A commit of the project.
        diff: The file with the changes to the commit, which need not exist.
        to: The folder for the copy, which must not exist.

    Raises:
        UserError: Git cannot write the commit, or the diff does not apply.
    """
    paths.private_folder(to.parent)
    draft, folder = to.with_name(f"{to.name}.new"), Path(source.folder)
    files.remove(draft)
    draft.mkdir()
    try:
        git.export(folder, commit, draft)
        if diff.is_file():
            git.apply(diff, folder, draft)
        links = [*git.untracked(folder), *_remove_submodules(draft)]
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error).encode()
        what = f"git cannot restore commit {commit[:12]}: {said.decode(errors='replace').strip()[:500]}"
        raise UserError(what, where=source.folder, remedy="Choose another run") from error
    for name in links:
        if folder / name != paths.home() and Path(name).name != "__pycache__":
            link = draft / name
            link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                link.symlink_to(_link_target(str(folder / name), str(folder)))
    files.replace(to.parent / paths.ORIGIN, msgspec.json.encode(source))
    draft.rename(to)


def _remove_submodules(exported: Path) -> list[str]:
    """Remove the submodules of an exported commit, which are its only empty folders; return their names."""
    empty = [Path(folder) for folder, folders, names in os.walk(exported) if not folders and not names]
    submodules = [folder for folder in empty if folder != exported]
    for folder in submodules:
        folder.rmdir()
    return [str(folder.relative_to(exported)) for folder in submodules]


def keep(
    folder: Path, to: Path, before: Path | None = None, secret_files: frozenset[str] = frozenset()
) -> list[str]:
    """Copy the code of a project; return which files are only linked, or why nothing is copied.

    Args:
        folder: The project.
        to: The folder for the copy.
        before: The copy of an earlier run, with which this one shares unchanged files.
        secret_files: Files that are linked instead of copied.

    Raises:
        OSError: The disk is full, or a folder cannot be read.
    """
    # Imported here: it takes longer to load than a listing takes.
    from symphony.content import ignore_files

    # The rules above a file in the folder: a repository in the folder ends those of a repository around it.
    rules = ignore_files.rules_above(f"{folder}/_", str(folder)) or ignore_files.IgnoreRules()
    entries = list[tuple[str, bool]]()
    count = size = 0
    for path, is_code in _entries(f"{folder}/".replace("//", "/"), rules):
        entries.append((path, is_code))
        if is_code and (bytes_here := os.stat(path).st_size) <= LARGEST:  # noqa: PTH116 : hot path
            count, size = count + 1, size + bytes_here
        if count > MOST_FILES or size > MOST_BYTES:
            most = f"{MOST_FILES} files or {MOST_BYTES // 1_000_000} MB"
            return [f"the code: more than {most} are not ignored, which is more than symphony copies"]
    linked: list[str] = []
    before = before and before.resolve()
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path, is_code in entries:
        name = os.path.relpath(path, folder)
        target = to / name
        if path.endswith("/"):
            target.mkdir(mode=0o700)
        elif not is_code or path in secret_files or not _copy(path, name, target, before):
            with suppress(FileExistsError):
                target.symlink_to(_link_target(path, str(folder)))
            if is_code:
                linked.append(name)
    return [f"{listed(linked, 5)}: large, secret or unreadable"] if linked else []


def _entries(folder: str, rules: IgnoreRules) -> Iterator[tuple[str, bool]]:
    """Yield every file with whether it is code, and before its files every folder, with a slash at its end.

    Of ignored folders, only the folders themselves are yielded, as files.
    """
    inner, home = rules.within(folder), str(paths.home())
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in (".git", "__pycache__") or entry.path == home:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if inner.excludes(f"{entry.path}/" if is_folder else entry.path):
                yield entry.path, entry.name.startswith(("Pulumi.", ".gitignore", ".symphonyignore"))
            elif is_folder:
                yield f"{entry.path}/", False
                yield from _entries(f"{entry.path}/", inner)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path, True
            elif entry.is_symlink():
                yield entry.path, False


def _link_target(path: str, folder: str) -> str:
    """Return the target of a link in the copy; a relative link within the project stays as it is."""
    if not os.path.islink(path):  # noqa: PTH114 : hot path
        return path
    link = os.readlink(path)  # noqa: PTH115 : hot path
    target = os.path.normpath(os.path.join(os.path.dirname(path), link))  # noqa: PTH118, PTH120
    return link if target.startswith(f"{folder}/") and not link.startswith("/") else target


def _copy(path: str, name: str, target: Path, before: Path | None) -> bool:
    """Copy a file, or link to it in an earlier copy; return False if the copy must link to the original.

    Skip a settings file, and return True.
    """
    if is_settings_file(os.path.basename(path)):  # noqa: PTH119 : hot path
        # Settings files may hold encrypted secrets; the record has the other settings.
        return True
    stat = os.stat(path)  # noqa: PTH116 : hot path
    if stat.st_size > LARGEST:
        return False
    if before is not None:
        with suppress(OSError):
            earlier = before / name
            then, now = ((s.st_mtime_ns, s.st_size, s.st_mode) for s in (earlier.lstat(), stat))
            # A folder that was ignored then is a link to the user's own files.
            if then == now and earlier.resolve() == earlier:
                target.hardlink_to(earlier)
                return True
    if _is_secret(path, name, stat.st_size):
        return False
    try:
        shutil.copy2(path, target)
    except PermissionError:
        return False
    return True


def is_settings_file(name: str) -> bool:
    """Return whether a file has the settings of a stack."""
    return name.startswith("Pulumi.") and name.endswith((".yaml", ".yml")) and name.count(".") > 1


def _is_secret(path: str, name: str, size: int) -> bool:
    from symphony_docker import secrets

    return secrets.is_left_out(name, is_folder=False) or bool(size and secrets.suspicion(name, path))


def holds_secret(text: bytes) -> bool:
    """Return whether a text holds a credential in one of the known formats."""
    from symphony_docker import secrets

    return bool(secrets.credential_in(text.decode("utf-8", "replace")))


def restore_settings(original: Path, to: Path, settings: Mapping[str, Any], secret: Collection[str]) -> None:
    """Write the settings of a run into a file, with the secret ones of the project's settings file."""
    content: dict[str, Any] = {}
    with suppress(OSError):
        content = workspace.load_yaml(original.read_text(encoding="utf-8")) or {}
    current: dict[str, Any] = content.get("config") or {}
    secrets = {name: setting for name, setting in current.items() if name in secret}
    paths.private_folder(to.parent)
    text = workspace.dump_yaml({**content, "config": {**settings, **secrets}})
    files.replace(to, text.encode())
