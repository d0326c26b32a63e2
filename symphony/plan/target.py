"""The limits of a backend and the ports that it chose, as a value: plan/ imports no backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from symphony.placement.pool import Pool
from symphony.placement.prices import LIST_PRICES, Prices
from symphony.plan.names import as_label, as_name, is_name
from symphony.plan.problems import Problem
from symphony.spec.experiment import ProcessGroupSpec
from symphony.spec.process import ProcessSpec


@dataclass(frozen=True)
class Target:
    """The limits and the offer of a backend for one experiment.

    Attributes:
        backend: The name of the backend.
        physical_name: The name of the experiment there: of the tmux session, the namespace or the job.
        starts: What a process needs in order to start: "command" or "image".
        supports: The settings that have an effect there; the plan lists the others as not used.
        one_host: All processes share the ports of one machine.
        host_of: The format of a service's host; `{service}` is its name.
        bind_host: The address that a binding process binds.
        ports: service -> the port that the backend chose for it.
        taken: service -> the reason why it cannot have the port it asks for, or none at all.
        unreadable: A file or folder of the program -> the reason why it cannot be read.
        unstartable: The path of a process -> the reason why its command cannot be started.
        reserved: A variable that no process can set -> the reason.
        defaults: The settings of a process that does not set them, such as image or start_dir.
        remarks: Legal declarations that are most likely a mistake in this backend.
        problems: What only this backend refuses.
        labels: Names are DNS labels.
        changed_files: `secret key.txt changed` for each file that differs from the running experiment's.
        pools: The pools of machines among which processes are placed; empty where the backend places them.
        pools_are_known: False where no cluster was asked and the stack of the cluster is not up.
        prices: The price list of the machines.
        gpus: The number of GPUs of this machine for processes; None where the backend places them.
    """

    backend: str
    physical_name: str
    starts: str
    supports: frozenset[str]
    one_host: bool
    host_of: str
    bind_host: str
    ports: Mapping[str, int] = field(default_factory=dict[str, int])
    taken: Mapping[str, str] = field(default_factory=dict[str, str])
    unreadable: Mapping[str, str] = field(default_factory=dict[str, str])
    unstartable: Mapping[str, str] = field(default_factory=dict[str, str])
    reserved: Mapping[str, str] = field(default_factory=dict[str, str])
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    problems: tuple[Problem, ...] = ()
    labels: bool = False
    changed_files: tuple[str, ...] = ()
    remarks: tuple[Problem, ...] = ()
    pools: tuple[Pool, ...] = ()
    pools_are_known: bool = True
    prices: Prices = LIST_PRICES
    gpus: int | None = None

    def path_of(self, group: ProcessGroupSpec | None, process: ProcessSpec) -> str:
        """Return the path of a process within its experiment there."""
        return "/".join(self.named(each.name) for each in (group, process) if each is not None)

    def is_legal(self, name: str, *, maps: bool) -> bool:
        """Return whether a name is legal there; maps: one that is mapped to a legal name is legal."""
        return (maps or is_name(name)) and bool(self.named(name))

    def named(self, name: str) -> str:
        """Return the name there of a process, group or service."""
        return as_label(name) if self.labels else as_name(name)
