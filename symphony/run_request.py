"""The request of a symphony command to the program that it runs, and the program's reports.

The command asks in the environment of the run. The program reports in the engine's debug log, which a plain
`pulumi` shows only with --debug. A leaf: commands, engine and program share these names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any

VARIABLE = "SYMPHONY_RUN"
# `none` where the engine runs without the plugins of Pulumi.
PLUGINS = "SYMPHONY_PLUGINS"
# The beginning of a line of the debug log that continues with a report as JSON.
REPORT = "symphony-report "


@dataclass(frozen=True)
class RunRequest:
    """The facts; a plain `pulumi` asks nothing.

    runs_on:    the backend on which the stack is up.
    recorded:   the uids of the processes that its state records, where the backend has such.
    restart:    the paths of the processes to start again, leaving all others; None: any other run.
    experiment: the name of the experiment that they are of.
    manifests:  hand over the Kubernetes manifests of the experiment as well.
    parameters: the names of the parameters that the command sets.
    images:     name -> `repository@sha256:...` of the images to run instead of building them.
    """

    runs_on: str | None = None
    recorded: tuple[str, ...] | None = None
    restart: tuple[str, ...] | None = None
    experiment: str = ""
    manifests: bool = False
    parameters: tuple[str, ...] = ()
    images: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def environment(self) -> dict[str, str]:
        """The variable that tells the program."""
        return {VARIABLE: json.dumps(asdict(self))}

    @property
    def offline(self) -> bool:
        """Only manifests are wanted, and nothing is up that they could be compared with."""
        return self.manifests and self.runs_on is None


# A script runs its program in its own process, and may launch several experiments at once.
_own: ContextVar[RunRequest | None] = ContextVar("request", default=None)


def use(request: RunRequest) -> None:
    """Set the request for the program that runs in this context."""
    _own.set(request)


def current() -> RunRequest:
    """Return what the command that runs this program asks."""
    if (own := _own.get()) is not None:
        return own
    asked: dict[str, Any] = json.loads(os.environ.get(VARIABLE, "{}"))
    asked |= {
        name: tuple(asked[name])
        for name in ("recorded", "restart", "parameters")
        if asked.get(name) is not None
    }
    return RunRequest(**asked)


def lacks_plugins() -> bool:
    """Return whether a command runs this program without the plugins of Pulumi."""
    return VARIABLE in os.environ and os.environ.get(PLUGINS) == "none"
