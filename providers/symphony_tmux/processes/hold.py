"""The file by which the supervisor of a process knows that it is to wait, and for what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from symphony import files, paths
from symphony_tmux import names
from symphony_tmux.processes.declared_code import DeclaredCode

NAME = "hold"
_LIMIT = 1 << 20


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A process that is waited for.

    port_variables: the variables with the ports that it is to listen on to be ready; ports: their values.
    """

    path: str
    condition: Literal["started", "ready", "completed", "ended"]
    timeout: float | None = None
    port_variables: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.path} ({self.condition})"


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """The waits of a process that is held back; why: in words; blocked: waiting alone does not help.

    code: that of the plan, which it must have when it starts.
    """

    waits_for: tuple[Wait, ...]
    why: str = ""
    blocked: bool = False
    code: DeclaredCode | None = None

    @property
    def ends_soon(self) -> bool:
        """Return whether it waits for starts only, and not for the end of a computation."""
        return not self.blocked and all(each.condition in ("started", "ready") for each in self.waits_for)


def first(
    waits_for: tuple[Wait, ...], variables: Mapping[str, str], code: DeclaredCode | None = None
) -> Hold:
    """Return the hold of a process that is about to be started; variables: those of all services."""
    waits = tuple(
        msgspec.structs.replace(
            wait, ports=tuple(int(variables[name]) for name in wait.port_variables if name in variables)
        )
        for wait in waits_for
    )
    return Hold(waits_for=waits, why=f"for {', '.join(map(str, waits))}", code=code)


def write(folder: Path, hold: Hold) -> None:
    files.replace(folder / NAME, msgspec.json.encode(hold))


def read(folder: Path) -> Hold | None:
    """Return the hold of the process in this folder; None where it is not held back."""
    try:
        return msgspec.json.decode(files.read(folder / NAME, limit=_LIMIT), type=Hold)
    except (OSError, msgspec.DecodeError):
        # A process may have put anything there; it holds nothing else back.
        return None


def of(outputs: Mapping[str, Any]) -> Hold | None:
    """Return the hold of the process that these outputs of a Window describe."""
    return read(Path(str(outputs["log"])).parent) if outputs.get("waits_for") else None


def held(server: str, session: str) -> Iterator[tuple[str, Path, Hold]]:
    """Yield the path, folder and hold of every process of a session that is held back."""
    processes = paths.experiment_folder(server, session) / names.PROCESSES
    for file in sorted(processes.glob(f"*/{NAME}")):
        if (hold := read(file.parent)) is not None:
            yield file.parent.name.replace(".", "/"), file.parent, hold
