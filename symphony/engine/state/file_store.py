"""Reads the state of stacks from the files of a file store, without the engine.

Reading is safe beside a running engine, which replaces its files whole. The engine writes to a stack;
what a killed engine left half written is replaced here by the engine's last copy.
"""

import json
import os
import shutil
import warnings
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import msgspec

from symphony import files, paths
from symphony.errors import SymphonyError

# The bytes that must be free: room for two versions of the state, of its copy and of its history.
_ROOM = 1 << 20
_SCHEME = "file://"
_ENDINGS = (".json", ".json.gz")
_VERSIONS = (3, 4)
# The engine writes this for an empty state.
_BLANK = (b'{"version": 0', b'{"version":0')


class StackName(msgspec.Struct, frozen=True, order=True):
    """A stack's full name."""

    project: str
    stack: str
    organization: str = "organization"

    def __str__(self) -> str:
        return f"{self.organization}/{self.project}/{self.stack}"

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names by which commands find the stack."""
        return self.stack, f"{self.project}/{self.stack}", str(self)


class Resource(msgspec.Struct, frozen=True):
    """One resource of a state; secrets in its values stay as the state has them."""

    urn: str
    type: str
    id: str
    parent: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    created_at: str
    protect: bool = False

    @property
    def name(self) -> str:
        return self.urn.rpartition("::")[2]

    @property
    def created(self) -> float | None:
        """Return when the engine first made the resource, in seconds since 1970."""
        with suppress(ValueError):
            return datetime.fromisoformat(self.created_at).timestamp()
        return None


class StackState(msgspec.Struct, frozen=True):
    """The engine's record of a stack.

    Attributes:
        pending: The urns of the resources whose operation was interrupted.
        begun: Those of them that were being created, except those of dynamic providers; they have no id.
    """

    name: StackName
    resources: tuple[Resource, ...]
    pending: tuple[str, ...]
    begun: tuple[Resource, ...] = ()


def is_full() -> bool:
    """Return whether the disk of the store has no room for the files of an engine run."""
    return is_files() and root().exists() and shutil.disk_usage(root()).free < _ROOM


def is_files(url: str | None = None) -> bool:
    """Return whether the state in use is a folder of files."""
    return (url or paths.store_url()).startswith(_SCHEME)


def root(url: str | None = None) -> Path:
    """Return the `.pulumi` folder of a file store."""
    folder = (url or paths.store_url()).removeprefix(_SCHEME).partition("?")[0]
    return Path(folder).expanduser().absolute() / ".pulumi"


def prepare() -> None:
    """Create the folder of a file store for its owner only, if it is missing."""
    if not is_files():
        return
    folder = root().parent
    try:
        paths.private_folder(folder)
    except OSError as error:
        raise _unwritable(folder, error.strerror or str(error)) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(folder, "Permission denied")
    layout = root() / "meta.yaml"
    _remove_partial_attributes(layout)
    # The engine does not find its stacks without the layout, which a loss of power may damage.
    with suppress(OSError):
        if os.path.lexists(layout) and not _is_layout(layout):
            files.remove(layout)
            files.replace(layout, b"version: 1\n")


def _is_layout(file: Path) -> bool:
    try:
        return files.read_source(file).startswith(b"version: ")
    except OSError:
        return False


def repair(name: StackName) -> None:
    """Remove the half written `.attrs` of a stack's state, which a killed engine leaves."""
    if is_files() and (file := _file(name)) is not None:
        _remove_partial_attributes(file)


def _remove_partial_attributes(file: Path) -> None:
    """Remove a half written `.attrs` beside a file: the engine fails on it, and works without one."""
    attributes = file.with_name(f"{file.name}.attrs")
    try:
        json.loads(files.read(attributes))
    except FileNotFoundError:
        pass
    except (OSError, ValueError):
        with suppress(OSError):
            files.remove(attributes)


def names() -> list[StackName]:
    """Return all stacks of the store, in order, without reading any."""
    projects = [entry for entry in _entries(root() / "stacks") if entry.is_dir()]
    return sorted(
        {
            StackName(project.name, stack)
            for project in projects
            for file in _entries(project.path)
            for ending in _ENDINGS
            if (stack := file.name.removesuffix(ending)) != file.name
        }
    )


def exists(name: StackName) -> bool:
    return _file(name) is not None


def version(name: StackName) -> tuple[int, ...]:
    """Return a value that changes whenever the engine writes the state of a stack."""
    file = _file(name)
    try:
        status = file.stat() if file else None
    except OSError:
        # The engine replaces the file at this moment.
        status = None
    return (status.st_mtime_ns, status.st_size, status.st_ino) if status else ()


def read_state(name: StackName) -> StackState:
    """Return the state of a stack; one that is damaged is restored from the engine's newest copy.

    Raises:
        KeyError: The store has no such stack.
        SymphonyError: The state cannot be read.
    """
    file = _file(name)
    if file is None:
        raise KeyError(str(name))
    try:
        return _read(name, file, file.read_bytes())
    except FileNotFoundError as error:
        raise KeyError(str(name)) from error
    except PermissionError as error:
        raise SymphonyError(
            f"the state of {name.stack} cannot be read",
            where=str(file),
            remedy="Take ownership of that file (chown)",
        ) from error
    except OSError as error:
        raise damaged_error(name, file) from error


_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)


def _read(name: StackName, file: Path, data: bytes) -> StackState:
    try:
        return _parse(name, file, data)
    except _UNREADABLE as error:
        return _restore(name, file, data, error)


def _parse(name: StackName, file: Path, data: bytes) -> StackState:
    raw: Any = json.loads(_decompress(data) if ".gz" in file.suffixes else data)
    version = raw["version"]
    if not version:
        raise ValueError("version 0, which the engine writes if it found the file empty")
    latest: dict[str, Any] = raw["checkpoint"].get("latest") or {}
    if version not in _VERSIONS:
        raise SymphonyError(
            f"the state of {name.stack} has version {version}, which this symphony cannot read",
            where=str(file),
            remedy="Update symphony",
        )
    return from_deployment(name, latest)


def _restore(name: StackName, file: Path, data: bytes, error: Exception) -> StackState:
    """Replace a damaged state with the engine's last copy, keep the old file as .damaged, return the copy.

    The engine copies the state before it writes and after each run; on a full disk it leaves an empty file.
    An empty state without a copy is moved away, as if the stack was never up; `up` adopts what runs.
    """
    damaged_file = file.with_name(f"{file.name}.damaged")
    state, copy = _newest_backup(name, file)
    if state is None and data.strip(b"\0\n") and not data.startswith(_BLANK):
        raise damaged_error(name, file) from error
    try:
        files.replace(damaged_file, data)
        # The .attrs file has the checksum of the removed file; the engine does without it.
        file.with_name(f"{file.name}.attrs").unlink(missing_ok=True)
        file.unlink() if state is None else files.replace(file, copy, durable=True)
    except OSError as failed:
        if is_full():
            raise damaged_error(name, file) from failed
        raise _unwritable(file.parent, failed.strerror or str(failed)) from failed
    what = "damaged: symphony restored the engine's last copy" if state else "empty and has no copy"
    warnings.warn(
        f"the state of {name.stack} was {what}. `symphony up {name.stack}` adopts the running processes;"
        f" {damaged_file} is the damaged file.",
        stacklevel=2,
    )
    if state is None:
        raise KeyError(str(name)) from error
    return state


def _newest_backup(name: StackName, file: Path) -> tuple[StackState | None, bytes]:
    """Return the last whole copy that the engine made of a state, parsed and as bytes."""
    history = root() / "history" / name.project / name.stack
    copies = [file.with_name(f"{file.name}.bak"), *history.glob("*.checkpoint.json*")]
    copies = [copy for copy in copies if copy.is_file() and copy.suffix != ".attrs"]
    for copy in sorted(copies, key=lambda copy: copy.stat().st_mtime, reverse=True):
        with suppress(OSError, *_UNREADABLE):
            data = copy.read_bytes()
            return _parse(name, copy, data), data
    return None, b""


def from_deployment(name: StackName, raw: Mapping[str, Any]) -> StackState:
    """Return a state from `latest` of a checkpoint or `deployment` of an export."""
    pending = cast("list[dict[str, Any]]", raw.get("pending_operations") or [])
    return StackState(
        name=name,
        # A resource marked `delete` has been replaced by one of the same name.
        resources=tuple(_resource(r) for r in raw.get("resources") or () if not r.get("delete")),
        pending=tuple(str(operation["resource"]["urn"]) for operation in pending),
        begun=tuple(
            _resource(operation["resource"])
            for operation in pending
            if operation.get("type") == "creating"
            and not str(operation["resource"].get("type")).startswith("pulumi-python:dynamic")
        ),
    )


def damaged_error(name: StackName, file: Path) -> SymphonyError:
    """Return the error of a damaged state that has no readable copy."""
    if is_full():
        remedy = "Free some space there, and run the command again"
        return SymphonyError("the disk is full", where=str(root()), remedy=remedy)
    return SymphonyError(
        f"the state of {name.stack} is damaged, and no copy of it can be read",
        where=str(file),
        remedy='If you have a file of `pulumi stack export`, run `eval "$(symphony env)"; pulumi stack import'
        f" --stack={name} --file FILE`; or move the damaged file away: "
        "`symphony ls` then shows the processes that still run",
    )


def _resource(raw: dict[str, Any]) -> Resource:
    return Resource(
        urn=str(raw["urn"]),
        type=str(raw.get("type", "")),
        id=str(raw.get("id", "")),
        parent=str(raw.get("parent", "")),
        inputs=raw.get("inputs") or {},
        outputs=raw.get("outputs") or {},
        created_at=str(raw.get("created") or ""),
        protect=raw.get("protect") is True,
    )


def _decompress(data: bytes) -> bytes:
    import gzip
    import zlib

    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from error


def _file(name: StackName) -> Path | None:
    folder = root() / "stacks" / name.project
    candidates = [folder / f"{name.stack}{ending}" for ending in _ENDINGS]
    return next((file for file in candidates if file.is_file()), None)


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SymphonyError(
            f"the state cannot be read: {error.strerror}",
            where=str(folder),
            remedy="Take ownership of that folder (chown), or set PULUMI_BACKEND_URL",
        ) from error


def _unwritable(folder: Path, reason: str) -> SymphonyError:
    return SymphonyError(
        f"the state cannot be written: {reason}",
        where=str(folder),
        remedy="Make that folder writable (chown, mount), or set SYMPHONY_HOME or PULUMI_BACKEND_URL",
    )
