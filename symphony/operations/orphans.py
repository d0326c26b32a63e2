"""What lives here and no state records: it was deleted, or its first run was killed; ls and delete ask.

The mark that all of ours bears names store, project and stack; what bears none is nobody's business here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from symphony import paths
from symphony.backends.interface import Living, observer_of
from symphony.engine import store
from symphony.plan.worlds import LOCAL


@dataclass(frozen=True)
class Orphan:
    """An experiment that lives in a world and is in no state."""

    world: str
    living: Living


def orphans(recorded: Collection[store.StackName]) -> dict[store.StackName, Orphan]:
    """What lives of this store beside the stacks that record what they have started."""
    known = {(name.project, name.stack) for name in recorded}
    found: dict[store.StackName, Orphan] = {}
    mark = paths.store_mark()
    for world in LOCAL:
        for living in observer_of(world).living():
            whose, _, of_store = living.owner.partition("#")
            project, _, stack = whose.partition("/")
            if of_store == mark and (project, stack) not in known:
                found[store.StackName(project, stack)] = Orphan(world, living)
    return found
