"""What a supervisor started last, as the process wrote it down itself: who it is, and in which cgroup.

The supervisor may be killed; what it leaves then has no parent, and perhaps no marker that tells whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symphony import files
from symphony_tmux import names
from symphony_tmux.processes import process_table
from symphony_tmux.processes.process_id import Identity
from symphony_tmux.resource import owners

NAME = "child"


@dataclass(frozen=True, slots=True)
class Child:
    """identity: of the process itself; cgroup: that of its whole tree, None where none could be had."""

    identity: Identity
    cgroup: Path | None = None

    def members(self) -> set[Identity]:
        """All that lives in its cgroup, the process itself in any case."""
        return {self.identity, *self.grouped()}

    def grouped(self) -> set[Identity]:
        """All that lives in its cgroup."""
        try:
            pids = (
                [int(pid) for pid in (self.cgroup / "cgroup.procs").read_text().split()]
                if self.cgroup
                else []
            )
        except OSError:
            return set()
        return {Identity(pid, start) for pid in pids if (start := process_table.start_of(pid))}

    def kill(self) -> None:
        """All in the cgroup at once, also what is being started."""
        if self.cgroup is not None:
            with suppress(OSError), (self.cgroup / "cgroup.kill").open("r+") as file:
                file.write("1")

    def remove_cgroup(self) -> None:
        """Unless somebody is in it who stays."""
        if self.cgroup is not None:
            with suppress(OSError):
                self.cgroup.rmdir()


def of(folder: Path) -> Child | None:
    """Of the process with this folder; None where it has none, or one of another boot."""
    try:
        words = (folder / NAME).read_text().split(" ", 3)
        pid, start, boot, cgroup = int(words[0]), int(words[1]), words[2], words[3].strip()
    except (OSError, ValueError, IndexError):
        return None
    if boot not in ("", process_table.boot_id()):
        return None
    return Child(Identity(pid, start), Path(cgroup) if cgroup else None)


def sweep(children: Iterable[Child]) -> None:
    """Beside the cgroups of these those go, too, that killed supervisors of anything have left empty."""
    for folder in {child.cgroup.parent for child in children if child.cgroup is not None}:
        for left in folder.glob("symphony-*"):
            pid = left.name.rpartition("-")[2]
            if pid.isdecimal() and not process_table.exists(int(pid)):
                with suppress(OSError):
                    left.rmdir()


def program(outputs: Mapping[str, Any]) -> int:
    """The pid of what the user runs, for debuggers and profilers; of its supervisor where it is not known."""
    result = of(Path(str(outputs["log"])).parent)
    if result is None or process_table.start_of(result.identity.pid) != result.identity.start:
        return int(outputs["pid"])
    # Lines of a script are read by a shell, of which the program is a child.
    below = process_table.children(result.identity.pid) if outputs.get("script") else []
    return below[0] if len(below) == 1 else result.identity.pid


def of_owner(owner: str, path: str | None = None) -> Iterator[Child]:
    """Of every process of one owner, or of the one with this path, whatever its session is called."""
    pattern = names.folder_name(path) if path else "*"
    for folder in owners.folders(owner):
        for file in files.matching(folder, f"{names.PROCESSES}/{pattern}/{NAME}"):
            if (result := of(file.parent)) is not None:
                yield result
