"""ProcessGroup: processes that share a fate and a machine; declared by the user's program."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

import pulumi

from symphony.components.builder import MemberBuilder, copied, declare
from symphony.components.errors import misuse
from symphony.components.overrides import Override
from symphony.components.process import Process
from symphony.plan.names import nearest, shown
from symphony.spec.experiment import GroupOptions, ProcessGroupSpec
from symphony.spec.process import ProcessOptions
from symphony.spec.shared import Texts

if TYPE_CHECKING:
    from symphony.plan.plan import Plan


class ProcessGroup(pulumi.ComponentResource, MemberBuilder[ProcessGroupSpec]):
    """Processes that share a machine and a fate: one pod on Kubernetes, windows `group:process` in tmux.

    group = experiment.new_process_group("agents", env={"SEED": 1})
    group.new_process("agent-0", command=["python", "agent.py"])

    name: letters, digits, "-" and "_". Of preamble_cmds, start_dir, code, env and image, see Process: what
    is said here holds for each of its processes, which may say another.
    """

    def __init__(self, name: str, **options: Unpack[GroupOptions]) -> None:
        """Declare a process group; ProcessGroup says what it takes."""
        self.pod_yml = Override()
        self._processes: list[Process] = []
        self._plan: Plan | None = None
        self._spec = declare(ProcessGroupSpec, name, options)

    @classmethod
    def from_spec(cls, spec: ProcessGroupSpec) -> ProcessGroup:
        """A group that declares what a loaded spec declares."""
        group = cls(spec.name)
        group.pod_yml.update(copied(spec.pod.pod_yml))
        group._processes = [Process.from_spec(each) for each in spec.processes]
        group._spec = dataclasses.replace(spec, processes=())
        return group

    @property
    def name(self) -> str:
        """The name it was declared with."""
        return self._spec.name

    @property
    def spec(self) -> ProcessGroupSpec:
        """What was declared of the group and its processes, as a frozen value."""
        return dataclasses.replace(super().spec, processes=tuple(each.spec for each in self._processes))

    @property
    def session(self) -> str:
        """The tmux session or Kubernetes namespace that it runs in. UserError: it is not launched yet."""
        return self._launched(self._plan).launched_as

    def new_process(self, name: str, cmds: Texts | None = None, **options: Unpack[ProcessOptions]) -> Process:
        """Declare a process of this group; it takes what Process takes."""
        return self.add_process(Process(name, cmds, **options))

    def add_process(self, process: Process) -> Process:
        """Put a process into this group."""
        expect(process, Process, "Process(...)")
        self._processes.append(process)
        return process

    def add_processes(self, processes: Iterable[Process]) -> None:
        """Put processes into this group."""
        for process in processes:
            self.add_process(process)

    def get_process(self, name: str) -> Process:
        """The process of that name. UserError: there is none."""
        return find(self._processes, name, f"process group {self._spec.name}")

    def list_processes(self) -> list[Process]:
        """Its processes in the order of declaration."""
        return list(self._processes)

    def register(self, plan: Plan, parent: pulumi.Resource) -> None:
        """Become a component of the running Pulumi program; the experiment's launch calls it."""
        options = pulumi.ResourceOptions(parent=parent)
        self._plan = plan
        name = plan.renamed.get(self.name, self.name)
        pulumi.ComponentResource.__init__(self, "symphony:index:ProcessGroup", name, None, options)
        declared = [f"{self.name}/{each.name}" for each in self._processes]
        paths = [plan.renamed.get(path, path) for path in declared]
        for process, path in zip(self._processes, paths, strict=True):
            process.register(path, plan, self)
        self.register_outputs({"session": self.session, "processes": paths})


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
    raise misuse(f"{within} has no {shown(name)}", remedy)


def expect(thing: object, kind: type[Any], made_by: str) -> None:
    """UserError: the thing is of another kind."""
    if not isinstance(thing, kind):
        what = f"a {type(thing).__name__} is added where a {kind.__name__} belongs"
        raise misuse(what, f"Add what {made_by} returns")
