"""What lives here and no state records: it was deleted, or its first run was killed.

The mark that all of ours bears names store, project and stack; what bears none is nobody's business here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from symphony import paths
from symphony.backends import registry
from symphony.backends.observe import Owned
from symphony.engine.state import file_store


@dataclass(frozen=True)
class Orphan:
    """An experiment that lives in a backend and is in no state."""

    backend: str
    owned: Owned


def orphans(recorded: Collection[file_store.StackName]) -> dict[file_store.StackName, Orphan]:
    """What lives of this store beside the stacks that record what they have started."""
    known = {(name.project, name.stack) for name in recorded}
    result: dict[file_store.StackName, Orphan] = {}
    mark = paths.store_mark()
    for row in filter(lambda row: row.local, registry.every()):
        for owned in row.observer.list_owned():
            whose, _, of_store = owned.owner.partition("#")
            project, _, stack = whose.partition("/")
            if of_store == mark and (project, stack) not in known:
                result[file_store.StackName(project, stack)] = Orphan(row.name, owned)
    return result


def lost() -> list[Orphan]:
    """What lives though every record of it was removed, the state and all else: by its mark alone."""
    rows = [row for row in registry.every() if row.local]
    return [Orphan(row.name, owned) for row in rows for owned in row.observer.list_lost()]


def delete_lost(orphan: Orphan) -> None:
    """End all of one of them."""
    registry.get(orphan.backend).observer.delete_lost(orphan.owned.owner)
