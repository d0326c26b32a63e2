"""The worlds an experiment can run in, by name; components and operations load the package of one lazily."""

from __future__ import annotations

from symphony.errors import UserError

# name -> package; a new backend is one folder and one row
WORLDS = {
    "tmux": "symphony.backends.tmux",
    "kubernetes": "symphony.backends.kubernetes",
}
ALIASES = {"kube": "kubernetes", "k8s": "kubernetes", "gke": "kubernetes"}
DEFAULT = "tmux"
# Those whose processes are on this machine: what no state records is found in them without being told where.
LOCAL = ("tmux",)
# Those whose resources a plugin makes that the engine gets by itself.
FETCHING = frozenset({"kubernetes"})


def world_named(said: str | None, *, where: str = "") -> str:
    """The world a user names, by its name or an alias. UserError: unknown, with those there are."""
    name = ALIASES.get(said or DEFAULT, said or DEFAULT)
    if name not in WORLDS:
        raise UserError(
            f'there is no backend "{said}"', where=where, remedy=f"The backends are: {', '.join(WORLDS)}"
        )
    return name
