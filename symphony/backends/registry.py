"""The backends there are: rows that distributions bring in the entry point group `symphony.backends`."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, cast

from symphony.errors import SymphonyError, UserError

if TYPE_CHECKING:
    from symphony.backends.access import Access
    from symphony.backends.expand import Expander
    from symphony.backends.observe import Observer
    from symphony.backends.prerequisites import Prerequisites
    from symphony.backends.stack_settings import StackSettings

GROUP = "symphony.backends"
DEFAULT = "tmux"


@dataclass(frozen=True)
class Backend:
    """One backend; its doors are modules of its package and load when they are used.

    name:    that of its entry point, and what `symphony:backend` says.
    package: where the modules `expand`, `observe`, `access` and `prerequisites` are.
    aliases: further names that `symphony:backend` may say.
    local:   its processes are on this machine; what no state records is found there.
    plugins: the Pulumi plugins that make its resources, which the engine installs.
    settings: those that it uses of the settings that not every backend does; a mount by its kind.
    labels:  its objects are called by DNS labels; other names are mapped to those.
    cluster: `module:class` of its Cluster, with options of its own.
    stack_settings: `module:class` of what the configuration of a stack says to it.
    """

    name: str
    package: str
    aliases: tuple[str, ...] = ()
    local: bool = False
    plugins: tuple[str, ...] = ()
    settings: frozenset[str] = frozenset()
    labels: bool = False
    cluster: str = "symphony.classic.cluster:Cluster"
    stack_settings: str = "symphony.backends.stack_settings:StackSettings"

    @property
    def expander(self) -> Expander:
        """What makes its Pulumi resources, inside the user's program."""
        return cast("Expander", self._door("expand"))

    @property
    def observer(self) -> Observer:
        """What reads how its processes are."""
        return cast("Observer", self._door("observe"))

    @property
    def access(self) -> Access:
        """What reaches into its processes."""
        return cast("Access", self._door("access"))

    @property
    def prerequisites(self) -> Prerequisites:
        """What it needs on this machine."""
        return cast("Prerequisites", self._door("prerequisites"))

    @property
    def cluster_class(self) -> type[Any]:
        """Its Cluster."""
        return _loaded(self.cluster)

    @property
    def settings_class(self) -> type[StackSettings]:
        """The settings of a stack that it takes, those of every backend among them."""
        return _loaded(self.stack_settings)

    def _door(self, name: str) -> object:
        return importlib.import_module(f"{self.package}.{name}")


def _loaded(place: str) -> type[Any]:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def names() -> list[str]:
    """Every backend, the default one first."""
    return sorted(_entry_points(), key=lambda name: (name != DEFAULT, name))


def get(name: str) -> Backend:
    """The backend of exactly this name. KeyError: there is none."""
    return _row(name)


def every() -> list[Backend]:
    """All backends, the default one first."""
    return [_row(name) for name in names()]


def resolve(name: str | None) -> str | None:
    """The name of the backend that a name or an alias means; None for neither."""
    wanted = name or DEFAULT
    if wanted in _entry_points():
        return wanted
    return next((each.name for each in every() if wanted in each.aliases), None)


def named(name: str | None) -> Backend:
    """The backend of a name or an alias. UserError: there is none; the message lists those there are."""
    if (known := resolve(name)) is None:
        raise UserError(f'there is no backend "{name}"', remedy=f"The backends are: {', '.join(names())}")
    return _row(known)


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {each.name: each for each in entry_points(group=GROUP)}


@cache
def _row(name: str) -> Backend:
    entry = _entry_points()[name]
    try:
        return entry.load()
    except Exception as error:
        package = entry.dist.name if entry.dist else entry.value
        raise SymphonyError(
            f'the backend "{name}" cannot be loaded: {error}',
            where=package,
            remedy="Upgrade or remove that package",
        ) from error
