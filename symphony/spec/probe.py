"""Readiness and liveness probes, with Kubernetes' terms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from symphony.errors import UserError
from symphony.spec.location import caller
from symphony.spec.setting import OPTIONAL_TEXT, Checked, of_type, optional, setting, words

HANDLERS = ("tcp", "http", "exec", "log")
# The name of a service, or a port number.
Port = str | int
_Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
_Delay = Annotated[int, Meta(ge=0, le=2**31 - 1)]


def _pattern(value: Any, setting: str) -> str | None:
    pattern = OPTIONAL_TEXT(value, setting)
    try:
        re.compile(pattern or "")
    except re.error as error:
        remedy = 'Write it as re.search takes it, such as "Listening on .*"'
        raise UserError(
            f"{setting} is not a valid regular expression: {error}", where=str(caller()), remedy=remedy
        ) from None
    return pattern


class ProbeOptions(TypedDict, total=False):
    """Keywords of a probe."""

    tcp: Port | None
    http: str | None
    exec: str | Sequence[str] | None
    log: str | None
    port: Port | None
    period_seconds: int
    timeout_seconds: int
    failure_threshold: int
    initial_delay_seconds: int


@dataclass(frozen=True)
class Probe(Checked):
    r"""A check that is repeated on a process, by exactly one of tcp, http, exec and log.

    Args:
        tcp: A service that the process binds, or a port: the check succeeds if it accepts a connection.
        http: A path, such as "/health": a GET succeeds with a status from 200 to 399.
        exec: A command that runs beside the process, without a shell, and succeeds with exit code 0.
        log: A regular expression that a line of the output must match; for readiness only.
        port: The service or port for http; needed if the process binds several.
        period_seconds: The time between two checks.
        timeout_seconds: The time after which a check has failed.
        failure_threshold: How many checks in a row must fail before the process is unready, or restarts.
        initial_delay_seconds: The time from the start of the process to the first check.

    Raises:
        UserError: A value has a wrong type, or not exactly one of tcp, http, exec and log is set.

    Example:
        experiment.new_process("web", command="python web.py", binds="web", readiness_probe=Probe(http="/"))
    """

    tcp: Port | None = setting(of_type(str | _Count | None))
    http: str | None = setting(OPTIONAL_TEXT)
    exec: tuple[str, ...] | None = setting(optional(words))
    log: str | None = setting(_pattern)
    port: Port | None = setting(of_type(str | _Count | None))
    period_seconds: int = setting(of_type(_Count), 2)
    timeout_seconds: int = setting(of_type(_Count), 2)
    failure_threshold: int = setting(of_type(_Count), 3)
    initial_delay_seconds: int = setting(of_type(_Delay), 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        handlers = [name for name in HANDLERS if getattr(self, name) not in (None, ())]
        if len(handlers) != 1:
            what = f"a probe has {' and '.join(handlers) or 'nothing to check'}"
            remedy = f"Set exactly one of {', '.join(HANDLERS)}"
            raise UserError(what, where=str(caller()), remedy=remedy)
        if self.port is not None and self.http is None:
            what = f"a probe with {handlers[0]}= also has port="
            raise UserError(
                what,
                where=str(caller()),
                remedy="Use port= only with http=; tcp= takes the port itself: tcp=6006",
            )

    @property
    def handler(self) -> str:
        """The kind of check: tcp, http, exec or log."""
        return next(name for name in HANDLERS if getattr(self, name) not in (None, ()))

    def __str__(self) -> str:
        value = getattr(self, self.handler)
        shown = " ".join(value) if self.handler == "exec" else value
        return f"{self.handler} {shown}{f' at {self.port}' if self.port is not None else ''}"
