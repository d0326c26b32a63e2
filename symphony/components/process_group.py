"""ProcessGroup: processes that share a fate and a machine; declared by the user's program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

import pulumi

from symphony.components.builder import MemberBuilder, declare
from symphony.components.members import Members
from symphony.components.overrides import Override
from symphony.components.process import Process
from symphony.plan.names import DECLARED
from symphony.spec.experiment import GroupOptions, ProcessGroupSpec

if TYPE_CHECKING:
    from symphony.plan.plan import Plan


class ProcessGroup(pulumi.ComponentResource, Members, MemberBuilder[ProcessGroupSpec]):
    """Processes that share a machine and a fate: one pod on Kubernetes, windows `group:process` in tmux.

    Its settings hold for all its processes, which may set others: preamble_cmds, start_dir, code, env,
    secret_env, image, image_pull_policy. Those of a pod belong to the group: place, node_selector,
    tolerations, restart_policy, labels, pod_yml. Process explains them.

    Args:
        name: Letters, digits, "-" and "_".
        opts: The pulumi.ResourceOptions of its component, such as depends_on and protect.

    Raises:
        UserError: A value has another type than its option takes, or an option is unknown.

    Example:
        group = experiment.new_process_group("agents", env={"SEED": 1})
        group.new_process("agent-0", command=["python", "agent.py"])
    """

    _kind = "process group"

    def __init__(
        self, name: str, *, opts: pulumi.ResourceOptions | None = None, **options: Unpack[GroupOptions]
    ) -> None:
        """Declare a process group; ProcessGroup says what it takes."""
        given: dict[str, Any] = {**options}
        self.pod_yml = Override(given.pop("pod_yml", None) or {})
        self._processes: list[Process] = []
        self._plan = None
        self._options = opts
        self._spec = declare(ProcessGroupSpec, name, given)

    @classmethod
    def from_spec(cls, spec: ProcessGroupSpec) -> ProcessGroup:
        """Return a group that declares what a loaded spec declares."""
        group = cls(spec.name, pod_yml=spec.pod.pod_yml)
        group._processes = [cls.process_class.from_spec(each) for each in spec.processes]
        group._spec = dataclasses.replace(spec, processes=())
        return group

    @property
    def spec(self) -> ProcessGroupSpec:
        """The declaration of the group and its processes, as a frozen value."""
        return dataclasses.replace(super().spec, processes=tuple(each.spec for each in self._processes))

    def register(
        self,
        plan: Plan,
        inputs: Mapping[str, Any],
        of_processes: Mapping[str, Mapping[str, Any]],
        parent: pulumi.Resource,
    ) -> None:
        """Become a component of the running Pulumi program; the experiment's launch calls it."""
        self._plan = plan
        name = plan.renamed.get(self.name, self.name)
        pulumi.ComponentResource.__init__(
            self, "symphony:index:ProcessGroup", name, {DECLARED: inputs}, self._options_under(parent)
        )
        declared = [f"{self.name}/{each.name}" for each in self._processes]
        for process, path in zip(self._processes, declared, strict=True):
            path = plan.renamed.get(path, path)
            process.register(path, plan, of_processes[path], self)
        self.register_outputs({})
