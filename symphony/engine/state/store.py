"""Reads the state of stacks, from files or through the engine from a cloud, and removes old copies."""

import contextlib
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

from symphony import paths
from symphony.engine import environment, workspace
from symphony.engine.state import file_store
from symphony.engine.state.file_store import StackName, StackState

# Runs whose history is kept.
KEPT = 10
# rl-1795252200484766864.checkpoint.json.gz, rl.1795252200484766864.json.bak and their .attrs
_STAMP = re.compile(r"[-.](\d{16,20})\.")


def names() -> list[StackName]:
    """Return all stacks, in order, without reading any."""
    if file_store.is_files():
        return file_store.names()
    command = ["stack", "ls", "--all", "--json", "--fully-qualify-stack-names"]
    return sorted(workspace.stack_name(str(row["name"]), None) for row in _json_of(command))


def exists(name: StackName) -> bool:
    """Return whether the store has a stack."""
    return file_store.exists(name) if file_store.is_files() else name in names()


def read_state(name: StackName) -> StackState:
    """Return the state of a stack.

    Raises:
        KeyError: The store has no such stack.
        SymphonyError: The state cannot be read.
    """
    if file_store.is_files():
        return file_store.read_state(name)
    raw = _json_of(["stack", "export", f"--stack={name}"], name)
    return file_store.from_deployment(name, raw.get("deployment") or {})


def version(name: StackName) -> tuple[int, ...]:
    """Return a value that changes when the state of a stack changes, for a cloud once a minute."""
    return file_store.version(name) if file_store.is_files() else (int(time.time() // 60),)


def last_plain_update(name: StackName) -> dict[str, Any] | None:
    """Return the engine's record of the last update, if a plain `pulumi` made it and it changed something."""
    if not file_store.is_files():
        return None
    history = (file_store.root() / "history" / name.project / name.stack).glob("*.history.json")
    newest = max(history, key=lambda file: file.name, default=None)
    try:
        update: dict[str, Any] = json.loads(newest.read_bytes()) if newest is not None else {}
        # symphony runs programs with this option of the engine.
        is_plain = update["kind"] == "update" and "pulumi.flag.client" not in update["environment"]
        changes = {*update["resourceChanges"]} - {"same"}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return update if is_plain and changes else None


def prune(name: StackName) -> None:
    """Remove the history of all but the newest runs of a stack in our own store; the engine never does."""
    if paths.store_url() == environment.own_store():
        for kind in ("history", "backups"):
            _prune(file_store.root() / kind / name.project / name.stack)


def purge(name: StackName) -> None:
    """Remove the history of a deleted stack and every copy of its state; the engine never does."""
    if not file_store.is_files():
        return
    for kind in ("history", "backups"):
        shutil.rmtree(file_store.root() / kind / name.project / name.stack, ignore_errors=True)
    for ending in (".json.bak", ".json.gz.bak", ".json.bak.attrs", ".json.gz.bak.attrs"):
        (file_store.root() / "stacks" / name.project / f"{name.stack}{ending}").unlink(missing_ok=True)


def _prune(folder: Path) -> None:
    by_run: dict[str, list[Path]] = {}
    # The next run tries again.
    with contextlib.suppress(OSError):
        for file in folder.iterdir():
            if match := _STAMP.search(file.name):
                by_run.setdefault(match[1], []).append(file)
        for run in sorted(by_run, key=int)[:-KEPT]:
            for file in by_run[run]:
                file.unlink(missing_ok=True)


def _json_of(command: list[str], name: StackName | None = None) -> Any:
    # Any project will do; without one, the command line may refuse a full name.
    done = workspace.pulumi(workspace.private_workspace(workspace.DEFAULT_PROJECT, "none"), command)
    if name is not None and "no stack named" in done.stderr:
        raise KeyError(str(name))
    try:
        if done.returncode:
            raise ValueError(done.stderr)
        return json.loads(done.stdout)
    except ValueError as error:
        from symphony.engine import errors

        stack, project = (name.stack, name.project) if name else (paths.store_url(), "")
        raise errors.from_text(done.stderr or str(error), stack=stack, project=project) from error
