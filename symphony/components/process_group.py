"""ProcessGroup: processes that share a fate and a machine; declared by the user's program."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Unpack

import pulumi

from symphony.components.builder import MemberBuilder, copied, declare
from symphony.components.members import Members
from symphony.components.overrides import Override
from symphony.components.process import Process
from symphony.spec.experiment import GroupOptions, ProcessGroupSpec

if TYPE_CHECKING:
    from symphony.plan.plan import Plan


class ProcessGroup(pulumi.ComponentResource, Members, MemberBuilder[ProcessGroupSpec]):
    """Processes that share a machine and a fate: one pod on Kubernetes, windows `group:process` in tmux.

    group = experiment.new_process_group("agents", env={"SEED": 1})
    group.new_process("agent-0", command=["python", "agent.py"])

    name: letters, digits, "-" and "_".

    Of preamble_cmds, start_dir, code, env, secret_env and image (or container_image), see Process: what is
    said here holds for each of its processes, which may say another.

    Nothing is checked here: what is wrong is reported at launch, with its line.
    """

    _kind = "process group"

    def __init__(self, name: str, **options: Unpack[GroupOptions]) -> None:
        """Declare a process group; ProcessGroup says what it takes."""
        self.pod_yml = Override()
        self._processes: list[Process] = []
        self._plan = None
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
    def spec(self) -> ProcessGroupSpec:
        """What was declared of the group and its processes, as a frozen value."""
        return dataclasses.replace(super().spec, processes=tuple(each.spec for each in self._processes))

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
