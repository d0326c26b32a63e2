"""The settings of a stack: a field each, with its type, which msgspec reads, and its help."""

from __future__ import annotations

import dataclasses
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
    """One setting.

    Attributes:
        key: Its name in the configuration.
        field: The field that holds it.
        type: Its type, as msgspec reads it.
        takes: Its values, in words.
        default: Its default, in words.
        help: What it is for.
        backends: The backends that use it, or all.
        convert: Turns the text of a value into that of the field, and raises ValueError for a wrong one.
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
    def row(self) -> tuple[str, str, str, str, str]:
        return self.key, self.takes, self.default, self.backends, self.help

    def read(self, text: str) -> Any:
        """Return the value of a text. ValueError: it has none."""
        value: Any = texts(text) if get_origin(self.type) is tuple else text
        value = next((word for word in self.choices if word.lower() == text.lower()), value)
        converted = msgspec.convert(value, self.type, strict=False)
        return self.convert(converted) if self.convert else converted


def _words(default: Any) -> str:
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
    """Return a dataclass field for a setting; otherwise and takes: its default and values in words."""
    about = {"type": type, "help": help, "default": otherwise or _words(default), "takes": takes}
    return dataclasses.field(default=default, metadata={_KEY: {**about, "convert": convert}})


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
    """The settings of a stack that every backend uses; a backend adds its own in a subclass.

    config: the whole configuration. problems: what is wrong in it; a wrong value is replaced by the default.
    """

    backend: str = setting(str, "tmux", "What runs the processes.")
    program: str | None = setting(
        str, None, "The program that the stack runs.", otherwise="the stack's name up to its first dot"
    )
    namespace: str | None = setting(
        str,
        None,
        "Name of the tmux session or Kubernetes namespace.",
        otherwise="the stack's name, with - for dots",
    )
    patience: float = setting(
        Patience,
        PATIENCE,
        "How long `up` waits for processes that do not come up by themselves: pods that no machine takes,"
        " whose image cannot be pulled (at most 35 s) or that keep crashing, readiness probes that fail, a"
        " job in the queue of Slurm. Then it says which and leaves all in place; it exits with 1, or"
        " with 0 where all run and are not ready.",
    )
    grace: float = setting(Seconds, 5.0, "Seconds between SIGTERM and SIGKILL.")
    registry: str | None = setting(
        str, None, "Where an `Image` without a repository of its own is pushed, as REGISTRY/NAME."
    )
    keep_runs: int = setting(
        Annotated[int, Meta(ge=1, le=100_000)],
        20,
        "The number of kept runs, with their logs.",
        takes="1 or more",
    )
    keep_gigabytes: float = setting(
        Annotated[float, Meta(gt=0)],
        5.0,
        "The disk that the kept runs of a stack may take.",
        takes="gigabytes",
    )
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    problems: tuple[Problem, ...] = ()

    def clashes(self) -> Iterator[tuple[str, str, str]]:
        """Yield settings that exclude each other, as field, problem and remedy."""
        yield from ()


def definitions(kind: type[StackSettings], backends: str = "all") -> list[Definition]:
    """Return the settings of a class; backends: those that use them."""
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
    """Return the name of a field's setting in the configuration: pod_security is symphony:podSecurity."""
    first, *rest = field.split("_")
    return f"{PREFIX}{first}{''.join(map(str.capitalize, rest))}"
