"""Dependencies: the conditions that a process waits for before it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

from symphony.spec.location import NOWHERE, Location, caller
from symphony.spec.setting import Checked, duration, of_type, required, setting, strict_text, wrong_type

Condition = Literal["started", "ready", "completed", "ended"]
# Seconds. A server that does not listen within ten minutes has a fault; a computation may take days.
TIMEOUTS: Mapping[Condition, float | None] = {"started": 600, "ready": 600, "completed": None, "ended": None}


class Waitable(Protocol):
    """A Process or a ProcessGroup."""

    @property
    def path(self) -> str: ...


Names = str | Waitable | Sequence[str | Waitable]
Dependencies = str | Waitable | Sequence[str | Waitable] | Mapping[str, Condition]


@dataclass(frozen=True)
class Dependency(Checked):
    """A process, a process group or a service that a process waits for.

    Attributes:
        on: `process`, `group`, `group/process`, or the name of a service.
        condition: started; ready; completed, with exit code 0; ended, with any.
        timeout: Seconds after which the wait fails; None waits for ever.
        service: Whether `on` names a service, and so the process that binds it.
        restart_with: Whether a restart of the dependency restarts the waiting process.
    """

    on: str = required(strict_text)
    condition: Condition = setting(of_type(Condition), "ready")
    timeout: float | None = setting(of_type(float | None))
    service: bool = setting(of_type(bool), False)
    restart_with: bool = setting(of_type(bool), False)
    where: Location = field(default=NOWHERE, compare=False)


def dependencies(value: Any, setting: str) -> tuple[Dependency, ...]:
    """Return the dependencies in a name, a Process, a list of these, or a mapping of names to conditions.

    >>> [(wait.on, wait.condition) for wait in dependencies(["a", {"b": "completed"}], "depends_on")]
    [('a', 'ready'), ('b', 'completed')]
    """
    if isinstance(value, Mapping):
        conditions = cast("Mapping[Any, Any]", value).items()
        return tuple(dependency(on, setting, condition) for on, condition in conditions)
    if isinstance(value, (list, tuple)):
        return tuple(nested for item in cast("list[Any]", value) for nested in dependencies(item, setting))
    return (dependency(value, setting),)


def dependency(
    value: Any,
    setting: str,
    condition: Any = "ready",
    timeout: float | str | None = None,
    *,
    service: bool = False,
    restart_with: bool = False,
) -> Dependency:
    """Return a dependency declared on the caller's line; timeout: None for the default in TIMEOUTS."""
    if isinstance(value, Dependency):
        return value
    on = _name(value, setting)
    condition = of_type(Condition)(condition, f"{setting}: condition")
    seconds = TIMEOUTS[condition] if timeout is None else duration(timeout, f"{setting}: timeout")
    return Dependency(on, condition, seconds, service, restart_with, caller())


def names(value: Any, setting: str) -> tuple[str, ...]:
    """Return the names in a name, a Process or ProcessGroup, or a list of these.

    >>> names(["learner", "agents/0"], "primary")
    ('learner', 'agents/0')
    """
    items = cast("list[Any]", value) if isinstance(value, (list, tuple)) else [value]
    return tuple(_name(item, setting) for item in items)


def _name(value: Any, setting: str) -> str:
    name = value if isinstance(value, str) else getattr(value, "path", None)
    if not isinstance(name, str):
        raise wrong_type(setting, value, "a Process, a ProcessGroup, its name, or a list of these")
    return name
