"""BackendLimits: what a backend offers to an experiment, as a value, so that `plan` imports no backend."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from symphony.placement.pool import Pool
from symphony.plan.names import as_label, as_name, is_name
from symphony.plan.problems import Problem
from symphony.spec.experiment import ProcessGroupSpec
from symphony.spec.process import ProcessSpec


@dataclass(frozen=True)
class BackendLimits:
    """The limits of a backend, and what it offers to an experiment.

    Attributes:
        backend: The name of the backend.
        physical_name: The name of the tmux session, the namespace or the Slurm job.
        starts: What a process needs in order to start: "command" or "image".
        supports: The settings that have an effect, among those that vary by backend; the plan lists the
            others of these as not used.
        one_host: Whether all processes share the ports of a single machine.
        host_of: The format of a service's host; `{service}` is its name.
        bind_host: The address that a binding process binds.
        ports: service -> the port that the backend chose for it.
        refused: service -> the reason why it cannot have its port, or any port.
        unreadable: A file or folder of the program -> the reason why it cannot be read.
        unstartable: The path of a process -> the reason why its command cannot be started.
        reserved: A variable that processes must not set -> the reason.
        defaults: Settings for processes that do not set them, such as image or start_dir.
        remarks: Messages that stop no `up`: probable mistakes, and facts such as Slurm's expected start.
        problems: Problems that only this backend can see.
        names_are_dns_labels: Whether names must be DNS labels; other names are mapped to labels.
        changed_files: `secret key.txt changed` for each file that differs from the running experiment's.
        pools: The machine pools to place processes in; empty if the backend places them itself.
        pools_are_known: False if neither a cluster nor its stack was read, or if the backend
            supports place() without pools, as Slurm does.
        gpus: The number of this machine's GPUs, or 0 if no process asks for one; None if a cluster
            (Kubernetes, Slurm) allocates them.
    """

    backend: str
    physical_name: str
    starts: str
    supports: frozenset[str]
    one_host: bool
    host_of: str
    bind_host: str
    ports: Mapping[str, int] = field(default_factory=dict[str, int])
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    unreadable: Mapping[str, str] = field(default_factory=dict[str, str])
    unstartable: Mapping[str, str] = field(default_factory=dict[str, str])
    reserved: Mapping[str, str] = field(default_factory=dict[str, str])
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    problems: tuple[Problem, ...] = ()
    names_are_dns_labels: bool = False
    changed_files: tuple[str, ...] = ()
    remarks: tuple[Problem, ...] = ()
    pools: tuple[Pool, ...] = ()
    pools_are_known: bool = True
    gpus: int | None = None

    def path_of(self, group: ProcessGroupSpec | None, process: ProcessSpec) -> str:
        """Return the path of a process in the backend."""
        return "/".join(self.map_name(owner.name) for owner in (group, process) if owner is not None)

    def is_valid(self, name: str, *, or_mapped: bool) -> bool:
        """Return whether a name is valid, or with `or_mapped`, whether it can be mapped to a valid one."""
        return (or_mapped or is_name(name)) and bool(self.map_name(name))

    def map_name(self, name: str) -> str:
        """Return the name that a process, group or service has in the backend."""
        return as_label(name) if self.names_are_dns_labels else as_name(name)
