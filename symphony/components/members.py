"""The processes of an experiment or a process group: declared, added, found, listed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from symphony.components.errors import usage_error
from symphony.components.process import Process
from symphony.plan.names import nearest, shown
from symphony.spec.process import ProcessOptions
from symphony.spec.shared import Texts


class Members:
    """What an experiment and a process group share: both have processes."""

    # What it is called in messages.
    _kind = ""

    if TYPE_CHECKING:  # Pulumi evaluates the annotations of components
        _processes: list[Process]

        @property
        def name(self) -> str: ...

    def new_process(self, name: str, cmds: Texts | None = None, **options: Unpack[ProcessOptions]) -> Process:
        """Declare a process in it: new_process("agent", ["source venv/bin/activate", "python agent.py"]).

        name: letters, digits, "-" and "_". cmds: lines for a shell; or command= and args= without one. These
        and all other keywords are those of Process.
        """
        return self.add_process(Process(name, cmds, **options))

    def add_process(self, process: Process) -> Process:
        """Put a process into it: add_process(Process("agent", command="python agent.py")).

        UserError: that is no Process.
        """
        expect(process, Process, "Process(...)")
        self._processes.append(process)
        return process

    def add_processes(self, processes: Iterable[Process]) -> None:
        """Put processes into it: add_processes([Process("a"), Process("b")]). UserError: as add_process()."""
        for process in processes:
            self.add_process(process)

    def get_process(self, name: str) -> Process:
        """Its process of that name, which is in no other group: get_process("agent"). UserError: none."""
        return find(self._processes, name, f"{self._kind} {self.name}")

    def list_processes(self) -> list[Process]:
        """Its processes in the order of declaration, without those of other groups."""
        return list(self._processes)


def find(things: Iterable[Any], name: str, within: str) -> Any:
    """The declared thing of that name, else a UserError with the near one."""
    known: list[str] = []
    for each in things:
        if each.name == name:
            return each
        known.append(str(each.name))
    near = nearest(str(name), known)
    remedy = (
        f"The nearest is {shown(near)}" if near else f"It has: {', '.join(map(shown, known)) or 'nothing'}"
    )
    raise usage_error(f"{within} has no {shown(name)}", remedy)


def expect(thing: object, kind: type[Any], made_by: str) -> None:
    """UserError: the thing is of another kind."""
    if not isinstance(thing, kind):
        what = f"a {type(thing).__name__} is added where a {kind.__name__} belongs"
        raise usage_error(what, f"Add what {made_by} returns")
