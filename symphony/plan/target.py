"""The limits of a backend and the ports that it handed out, as a value: plan/ imports no backend."""

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
    """The offer of a backend to an experiment.

    backend:      its name.
    launched_as:  what the experiment is called there (session, namespace).
    starts:       what a process needs to start there: "command" or "image".
    supports:     the settings that mean something there; the others are listed as not used.
    one_host:     all processes share the ports of one machine.
    host_of:      format of a service's host; `{service}` is its name.
    bind_host:    what a binding process binds.
    ports:        service -> port, as handed out by the backend.
    taken:        service -> why it cannot have the port it asks for, or none at all.
    unreadable:   a file or folder the user named -> why it cannot be used.
    unstartable:  the path of a process -> why its command cannot be started.
    reserved:     a variable that no process can be given -> why.
    defaults:     the settings of a process that makes none, such as its image or start_dir.
    remarks:      legal declarations that are most likely a mistake on this backend.
    problems:     what this backend alone would refuse.
    labels:       names there are DNS labels.
    changed_files: `secret key.txt changed` for each that the experiment which runs has otherwise.
    pools:        the pools of machines among which processes are placed; none: the backend places them.
    pools_are_known: False where no cluster was asked, and its stack is not up.
    prices:       what machines cost.
    gpus:         the number of GPUs that processes get from this machine; None: the backend places them.
    """

    backend: str
    launched_as: str
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
