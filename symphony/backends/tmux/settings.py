"""The stack settings of the tmux backend."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated, cast

from msgspec import Meta

from symphony.backends.expand import Context
from symphony.backends.stack_settings import StackSettings, setting
from symphony.paths import DEFAULT_SERVER

_Server = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?$")]


def _words(text: str) -> tuple[str, ...]:
    """Split a command into words; it is run without a shell."""
    return tuple(shlex.split(text))


@dataclass(frozen=True, kw_only=True)
class Settings(StackSettings):
    """The settings of a stack in tmux."""

    server: str = setting(
        _Server, DEFAULT_SERVER, "Name of the tmux server.", takes="letters, digits, - and _"
    )
    notify: tuple[str, ...] = setting(
        str,
        (),
        "Command to run at the end of an experiment, with NAME, STATE, EXIT, SECONDS and LAST_LINES in its"
        " environment.",
        takes="a command",
        otherwise="none",
        convert=_words,
    )


def server_of(context: Context) -> str:
    """Return the name of the tmux server in the settings of the stack."""
    return cast("Settings", context.settings).server


def notify_of(context: Context) -> tuple[str, ...]:
    """Return the command to run at the end of an experiment."""
    return cast("Settings", context.settings).notify
