"""The settings of a stack in tmux."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from symphony.backends.expand import Context
from symphony.backends.stack_settings import SettingType, StackSettings, setting
from symphony.paths import DEFAULT_SERVER
from symphony.plan.names import is_name


def _server(text: str) -> str:
    if not is_name(text):
        raise ValueError
    return text


_SERVER = SettingType("letters, digits, - and _", _server)


@dataclass(frozen=True, kw_only=True)
class Settings(StackSettings):
    """What the configuration of a stack says to this backend."""

    server: str = setting(_SERVER, DEFAULT_SERVER, "Which of several tmux servers of yours.")


def server_of(context: Context) -> str:
    """The name of the tmux server that the stack says."""
    return cast("Settings", context.settings).server
