"""The backends: those of symphony, and those of the entry point group `symphony.backends`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

from symphony.errors import SymphonyError, UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from symphony.backends.access import Access
    from symphony.backends.expand import Expander
    from symphony.backends.observe import Observer
    from symphony.backends.stack_settings import StackSettings


class Finding(msgspec.Struct, frozen=True):
    """A prerequisite: whether it is installed, its version, and how to install it.

    needed:  whether `setup` and `doctor` fail without it; others are for another backend or for convenience.
    package: the Debian package with which `symphony setup` installs it.
    """

    name: str
    there: bool
    version: str = ""
    place: str = ""
    get: str = ""
    needed: bool = True
    package: str = ""


class Prerequisites(Protocol):
    """A backend's module `prerequisites`; it must not import Pulumi."""

    def findings(self) -> list[Finding]:
        """Return all prerequisites within seconds: users of other backends wait for them, too."""
        ...


def finding_or_error(name: str, get: str, look: Callable[[], Finding]) -> Finding:
    """Return the finding of look(), or a finding that shows the error it raises."""
    try:
        return look()
    except SymphonyError as error:
        return Finding(name, False, error.what, error.where, get)


# The entry point group of the backends of other packages.
GROUP = "symphony.backends"
DEFAULT = "tmux"
BUILT_IN: Final = (DEFAULT, "kubernetes", "slurm")
# The settings that tmux, Kubernetes and Slurm support alike.
COMMON_SETTINGS = frozenset(
    {
        "args",
        "cmds",
        "command",
        "configs",
        "depends_on",
        "idle_after",
        "liveness_probe",
        "preamble_cmds",
        "primary",
        "readiness_probe",
        "resource_limit",
        "restart_policy",
        "secret_env",
        "secrets",
        "start_dir",
        "stop_after",
        "termination_delay",
    }
)


class Backend(msgspec.Struct, frozen=True):
    """A backend; the modules of its package are imported on first use.

    Attributes:
        name: The value of `symphony:backend`, and the name of its entry point if another package has it.
        package: The package with the modules `expand`, `observe`, `access` and `prerequisites`.
        aliases: Other values of `symphony:backend` for it.
        local: Whether its processes run on this machine, where those without a state can be found; only the
            built-in backends are asked for these.
        plugins: The Pulumi plugins that it needs, which the engine installs.
        settings: The supported settings, among those that vary by backend; a mount by its kind.
        names_are_dns_labels: Whether its objects need DNS labels as names; other names are mapped to labels.
        cluster: `module:class` of its Cluster.
        stack_settings: `module:class` of its stack settings.
    """

    name: str
    package: str
    aliases: tuple[str, ...] = ()
    local: bool = False
    plugins: tuple[str, ...] = ()
    settings: frozenset[str] = frozenset()
    names_are_dns_labels: bool = False
    cluster: str = "symphony.classic.cluster:Cluster"
    stack_settings: str = "symphony.backends.stack_settings:StackSettings"

    @property
    def expander(self) -> Expander:
        return cast("Expander", importlib.import_module(f"{self.package}.expand"))

    @property
    def observer(self) -> Observer:
        return cast("Observer", importlib.import_module(f"{self.package}.observe"))

    @property
    def access(self) -> Access:
        return cast("Access", importlib.import_module(f"{self.package}.access"))

    @property
    def prerequisites(self) -> Prerequisites:
        return cast("Prerequisites", importlib.import_module(f"{self.package}.prerequisites"))

    @property
    def cluster_class(self) -> type[Any]:
        return resolve_name(self.cluster)

    @property
    def settings_class(self) -> type[StackSettings]:
        return resolve_name(self.stack_settings)


def names() -> list[str]:
    """Return the names of all backends, the default backend first."""
    return [*BUILT_IN, *sorted(_entry_points().keys() - set(BUILT_IN))]


def exists(name: str) -> bool:
    """Return whether a backend has exactly this name."""
    return name in BUILT_IN or name in _entry_points()


@cache
def get(name: str) -> Backend:
    """Return the backend with exactly this name.

    Raises:
        KeyError: No backend has this name.
        SymphonyError: Its package cannot be loaded.
    """
    if name in BUILT_IN:
        return resolve_name(f"symphony.backends.{name}.backend:BACKEND")
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


def every() -> list[Backend]:
    """Return all backends, the default backend first."""
    return [get(name) for name in names()]


def resolve(name: str | None) -> str | None:
    """Return the name of the backend with this name or alias; None if there is none."""
    wanted = name or DEFAULT
    if exists(wanted):
        return wanted
    return next((backend.name for backend in every() if wanted in backend.aliases), None)


def get_by_name_or_alias(name: str | None) -> Backend:
    """Return the backend with a name or alias.

    Raises:
        UserError: No backend has this name; the remedy lists the backends.
    """
    if (known := resolve(name)) is None:
        raise UserError(f'there is no backend "{name}"', remedy=f"Use one of: {', '.join(names())}")
    return get(known)


@cache
def _entry_points() -> dict[str, EntryPoint]:
    # 25 ms, which the reading commands do not spend on backends that they do not need.
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}
