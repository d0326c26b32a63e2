"""The settings of a stack in tmux."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from symphony.backends.expand import Context
from symphony.backends.stack_settings import NAME, StackSettings, setting
from symphony.paths import DEFAULT_SERVER


@dataclass(frozen=True, kw_only=True)
class Settings(StackSettings):
    """What the configuration of a stack says to this backend."""

    server: str = setting(NAME, DEFAULT_SERVER, "Which of several tmux servers of yours.")


def server_of(context: Context) -> str:
    """The name of the tmux server that the stack says."""
    return cast("Settings", context.settings).server
