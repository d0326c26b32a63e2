"""The state of stacks, wherever it is: in files, or in a cloud or bucket that the engine reads."""

from __future__ import annotations

from symphony.engine.state import cloud_store, file_store
from symphony.engine.state.file_store import StackName, StackState


def names() -> list[StackName]:
    """All stacks, in order, without reading one."""
    return file_store.names() if file_store.is_files() else cloud_store.names()


def exists(name: StackName) -> bool:
    return file_store.exists(name) if file_store.is_files() else name in cloud_store.names()


def read(name: StackName) -> StackState:
    """The state of one stack. KeyError: the store has none of that name."""
    return file_store.read(name) if file_store.is_files() else cloud_store.read(name)
