"""The settings of a stack in tmux."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from msgspec import Meta

from symphony.backends.expand import Context
from symphony.backends.stack_settings import StackSettings, setting
from symphony.paths import DEFAULT_SERVER

_Server = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?$")]


@dataclass(frozen=True, kw_only=True)
class Settings(StackSettings):
    """The settings of a stack that this backend uses."""

    server: str = setting(
        _Server, DEFAULT_SERVER, "Name of the tmux server.", takes="letters, digits, - and _"
    )


def server_of(context: Context) -> str:
    """The name of the tmux server that the stack says."""
    return cast("Settings", context.settings).server
