"""The settings of a stack, as dataclass fields with their types and help texts."""

import dataclasses
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from symphony.backends.observe import LIMIT, PATIENCE
from symphony.plan.problems import Problem

PREFIX = "symphony:"
_KEY = "stack setting"


@dataclass(frozen=True)
class Definition:
    """The definition of a stack setting.

    Attributes:
        key: The name in the configuration.
        field: The name of the dataclass field.
        type: The type, for msgspec.
        takes: The allowed values, in words.
        default: The default, in words.
        help: The help text.
        backends: The backends that use it, or "all".
        convert: Converts the msgspec value to the field's value; raises ValueError for a wrong value.
    """

    key: str
    field: str
    type: Any
    takes: str
    default: str
    help: str
    backends: str
    convert: Callable[[Any], Any] | None = None

    @property
    def choices(self) -> tuple[str, ...]:
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def is_text(self) -> bool:
        return getattr(self.type, "__origin__", self.type) is str  # Annotated[str, ...], too

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        return self.key, self.takes, self.default, self.backends, self.help

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for; raise ValueError if it is invalid."""
        value: Any = texts(text) if get_origin(self.type) is tuple else text
        value = next((word for word in self.choices if word.lower() == text.lower()), value)
        converted = msgspec.convert(value, self.type, strict=False)
        return self.convert(converted) if self.convert else converted


def _default_text(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default or "none")


def setting(
    type: Any,
    default: Any,
    help: str,
    *,
    otherwise: str = "",
    takes: str = "",
    convert: Callable[[Any], Any] | None = None,
) -> Any:
    """Return a dataclass field for a setting; otherwise, takes: the default and the values in words."""
    text = otherwise or _default_text(default)
    definition = {"type": type, "help": help, "default": text, "takes": takes, "convert": convert}
    return dataclasses.field(default=default, metadata={_KEY: definition})


def texts(text: str) -> tuple[str, ...]:
    """Return the parts of `a, b` or `["a", "b"]`, as `pulumi config set` and `--path` write them."""
    inner = text.strip().removeprefix("[").removesuffix("]")
    return tuple(part.strip().strip("\"'") for part in inner.split(",") if part.strip())


Seconds = Annotated[float, Meta(ge=0, le=600)]
Patience = Annotated[float, Meta(ge=0, le=LIMIT)]
_TAKES: dict[Any, str] = {
    str: "text",
    bool: "true, false",
    tuple[str, ...]: "a list: a, b",
    Seconds: "0-600 seconds",
    Patience: f"0-{LIMIT:.0f} seconds",
}


@dataclass(frozen=True, kw_only=True)
class StackSettings:
    """The settings of a stack that every backend uses; backends add settings in subclasses.

    config: the whole configuration. problems: the mistakes in it; a wrong value is replaced by the default.
    """

    backend: str = setting(str, "tmux", "The backend that runs the processes.")
    program: str | None = setting(
        str, None, "The program of the stack.", otherwise="the stack's name up to its first dot"
    )
    namespace: str | None = setting(
        str,
        None,
        "Name of the tmux session, Kubernetes namespace or Slurm job.",
        otherwise="the stack's name, with - for dots",
    )
    patience: float = setting(
        Patience,
        PATIENCE,
        "How long `up` waits for processes that do not get ready: unschedulable or crashing pods, images that"
        " cannot be pulled (at most 35 s), failing readiness probes, a job in Slurm's queue. Then `up` names"
        " them, leaves everything in place, and exits with 1, or with 0 if all run and some are not ready.",
    )
    grace: float = setting(Seconds, 5.0, "Seconds between SIGTERM and SIGKILL.")
    notify: tuple[str, ...] = setting(
        str,
        (),
        "Command to run at the end of an experiment, where its supervisor runs, with NAME, STATE, EXIT,"
        " SECONDS, WHY and LAST_LINES in its environment.",
        takes="a command",
        otherwise="none",
        convert=lambda text: tuple(shlex.split(text)),
    )
    registry: str | None = setting(
        str, None, "The registry for each `Image` without a repository; it is pushed to REGISTRY/NAME."
    )
    keep_runs: int = setting(
        Annotated[int, Meta(ge=1, le=100_000)],
        20,
        "How many past runs are kept, with their logs.",
        takes="1 or more",
    )
    keep_gigabytes: float = setting(
        Annotated[float, Meta(gt=0)],
        5.0,
        "Disk space for the kept runs of a stack.",
        takes="gigabytes",
    )
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    problems: tuple[Problem, ...] = ()

    def faults(self) -> Iterator[tuple[str, str, str]]:
        """Yield wrong or conflicting settings, as (field, what is wrong, remedy)."""
        yield from ()


def definitions(kind: type[StackSettings], backends: str = "all") -> list[Definition]:
    """Return the definitions of a settings class; backends: the name of the backend, or "all"."""
    return [
        _definition(field.name, backends, **field.metadata[_KEY])
        for field in dataclasses.fields(kind)
        if _KEY in field.metadata
    ]


def _definition(field: str, backends: str, **about: Any) -> Definition:
    choices = get_args(about["type"]) if get_origin(about["type"]) is Literal else ()
    about["takes"] = about["takes"] or ", ".join(choices) or _TAKES[about["type"]]
    return Definition(key=key_of(field), field=field, backends=backends, **about)


def key_of(field: str) -> str:
    """Return the configuration key of a field: symphony:podSecurity for pod_security."""
    first, *rest = field.split("_")
    return f"{PREFIX}{first}{''.join(map(str.capitalize, rest))}"
