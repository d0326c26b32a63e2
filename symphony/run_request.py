"""The request of a symphony command to the program that it runs, and the program's reports.

The request is an environment variable. The program reports in the engine's debug log, which a plain `pulumi`
shows only with --debug.
"""

import os
from collections.abc import Mapping
from contextvars import ContextVar

import msgspec

VARIABLE = "SYMPHONY_RUN"
# `none` if the engine runs without Pulumi's plugins.
PLUGINS = "SYMPHONY_PLUGINS"
# The beginning of a line of the debug log that continues with a report as JSON.
REPORT = "symphony-report "


class RunRequest(msgspec.Struct, frozen=True):
    """The request; a plain `pulumi` leaves every field at its default.

    runs_on:    the backend on which the stack is up.
    recorded:   the uids of the processes in its state, on backends that have uids.
    restart:    the only processes to restart, by path, with the digest of the supervision in the state; None
                if the run is not a restart.
    experiment: the urn of the experiment in the stack's state; empty if it has none.
    manifests:  whether to report the Kubernetes manifests as well.
    parameters: the names of the parameters that the command sets.
    unquoted:   name -> text in the settings file, for the parameters without quotes there.
    images:     name -> `repository@sha256:...` of the images to run instead of building them.
    """

    runs_on: str | None = None
    recorded: tuple[str, ...] | None = None
    restart: Mapping[str, str] | None = None
    experiment: str = ""
    manifests: bool = False
    parameters: tuple[str, ...] = ()
    unquoted: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    images: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])

    @property
    def environment(self) -> dict[str, str]:
        """The environment variable that carries the request."""
        return {VARIABLE: msgspec.json.encode(self).decode()}

    @property
    def experiment_name(self) -> str:
        return self.experiment.rpartition("::")[2]

    @property
    def offline(self) -> bool:
        """Return whether manifests are wanted as if the stack were not up, so that no cluster is asked."""
        return self.manifests and self.runs_on is None


# A script runs its program in its own process, and may launch several experiments at once.
_own: ContextVar[RunRequest | None] = ContextVar("request", default=None)


def use(request: RunRequest) -> None:
    """Set the request for the program that runs in this context."""
    _own.set(request)


def current() -> RunRequest:
    """Return the request of the command that runs this program."""
    if (own := _own.get()) is not None:
        return own
    return msgspec.json.decode(os.environ.get(VARIABLE, "{}"), type=RunRequest)


def is_of_script() -> bool:
    """Return whether a script runs this program in its own process."""
    return _own.get() is not None


def lacks_plugins() -> bool:
    """Return whether a command runs this program without Pulumi's plugins."""
    return VARIABLE in os.environ and os.environ.get(PLUGINS) == "none"
