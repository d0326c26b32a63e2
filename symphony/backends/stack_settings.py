"""The settings of a stack that every backend takes; each is a field, defined with its type and help."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from symphony.backends.observe import LIMIT, PATIENCE
from symphony.plan.names import is_experiment
from symphony.plan.problems import Problem

PREFIX = "symphony:"
_KEY = "stack setting"


@dataclass(frozen=True)
class SettingType:
    """What a setting takes, in words, and how it is read from text. ValueError: it is none."""

    takes: str
    read: Callable[[str], Any] = str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Definition:
    """One setting: its key, the field that holds it, and what the help says.

    backends: those that use it, or all.
    """

    key: str
    field: str
    type: SettingType
    default: str
    help: str
    backends: str

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        return self.key, self.type.takes, self.default, self.backends, self.help


def setting(type: SettingType, default: Any, help: str, *, otherwise: str = "") -> Any:
    """A field that is a setting; otherwise: its default in words."""
    return dataclasses.field(default=default, metadata={_KEY: (type, otherwise, help)})


def one_of(*words: str) -> SettingType:
    """One of these, in capitals or not."""

    def read(text: str) -> str:
        result = next((word for word in words if word.lower() == text.lower()), None)
        if result is None:
            raise ValueError
        return result

    return SettingType(", ".join(words), read, words)


def seconds(most: float) -> SettingType:
    """A length of time."""

    def read(text: str) -> float:
        if not 0 <= float(text) <= most:
            raise ValueError
        return float(text)

    return SettingType(f"0-{most:.0f} seconds", read)


def texts(text: str) -> tuple[str, ...]:
    """`a, b` or `["a", "b"]`, as `pulumi config set` and `--path` write them."""
    inner = text.strip().removeprefix("[").removesuffix("]")
    return tuple(part.strip().strip("\"'") for part in inner.split(",") if part.strip())


def _name(text: str) -> str:
    if not is_experiment(text):
        raise ValueError
    return text


TEXT = SettingType("text")
NAME = SettingType("letters, digits, -, _ and .", _name)
TEXTS = SettingType("a list: a, b", texts)
FLAG = SettingType(
    "true, false", lambda text: one_of("true", "false").read(text) == "true", ("true", "false")
)


@dataclass(frozen=True, kw_only=True)
class StackSettings:
    """What the configuration of a stack says to every backend; each adds its own in a class of its row.

    config: the whole configuration, also what is not ours. problems: what is wrong in it; in the place of a
    wrong value stands the default.
    """

    backend: str = setting(TEXT, "tmux", "What runs the processes.")
    program: str | None = setting(
        TEXT,
        None,
        "The program that the stack runs.",
        otherwise="the stack's name up to its first dot",
    )
    namespace: str | None = setting(
        TEXT,
        None,
        "What the experiment is called in its backend: the tmux session, the namespace.",
        otherwise="the stack's name, with - for dots",
    )
    patience: float = setting(
        seconds(LIMIT),
        PATIENCE,
        "How long `up` waits where no machine has room yet; for an image that cannot be pulled at most 35."
        " Then it ends with 1, and what it started stays and may still come up.",
    )
    grace: float = setting(seconds(600), 5.0, "How long a process has to end once it is asked to.")
    registry: str | None = setting(
        TEXT, None, "Where an `Image` without a repository of its own is pushed, as REGISTRY/NAME."
    )
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    problems: tuple[Problem, ...] = ()

    def clashes(self) -> Iterator[tuple[str, str, str]]:
        """What two settings say that does not go together: the field to change, what is wrong, the remedy."""
        yield from ()


def definitions(kind: type[StackSettings], backends: str = "all") -> list[Definition]:
    """The settings of a class; backends: who uses them."""
    return [
        Definition(key_of(field.name), field.name, type, otherwise or _words(field.default), help, backends)
        for field in dataclasses.fields(kind)
        if _KEY in field.metadata
        for type, otherwise, help in (field.metadata[_KEY],)
    ]


def key_of(field: str) -> str:
    first, *rest = field.split("_")
    return f"{PREFIX}{first}{''.join(map(str.capitalize, rest))}"


def _words(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default or "none")
