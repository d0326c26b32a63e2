"""The protocol by which a backend makes the Pulumi resources of an experiment: its module `expand`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pulumi

    from symphony.backends.stack_settings import StackSettings
    from symphony.plan.plan import Plan, PlannedImage
    from symphony.plan.target import Target
    from symphony.spec.experiment import ExperimentSpec
    from symphony_docker.provider import ImageResource

# The facts of a process beside its plan; they become inputs of its component.
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Context:
    """The stack of the running program, and its settings.

    Attributes:
        owner: Tells this stack from every other of the user, in whichever state store.
        offline: No cluster is asked: only the manifests are wanted, or nothing of it is there to compare.
        recorded: The uids of what its state records; None where that is not known, under plain `pulumi`.
        images: Those that are built for the experiment.
        is_partial: The run starts some processes again and leaves all others as they are.
    """

    project: str
    stack: str
    owner: str
    physical_name: str
    backend: str
    dry_run: bool
    folder: Path
    settings: StackSettings
    recorded: frozenset[str] | None = None
    images: tuple[PlannedImage, ...] = ()
    offline: bool = False
    is_partial: bool = False


@dataclass(frozen=True)
class Components:
    """The components under which a backend makes its resources; processes by path, groups by name.

    images: those that are built, by their names in the plan.
    """

    experiment: pulumi.Resource
    groups: Mapping[str, pulumi.Resource]
    processes: Mapping[str, pulumi.Resource]
    images: Mapping[str, ImageResource] = field(default_factory=dict[str, "ImageResource"])


class Expander(Protocol):
    """The module `expand` of a backend, which runs inside the user's Pulumi program."""

    def target(self, spec: ExperimentSpec, context: Context) -> Target:
        """Return what the backend supports for this experiment, and what it would refuse."""
        ...

    def image_registry(self, context: Context) -> str:
        """Return where images are pushed without symphony:registry; empty where that is unknown."""
        ...

    def prepare(self, plan: Plan, spec: ExperimentSpec, context: Context) -> Any:
        """Return the plan in the terms of this backend, for the calls below."""
        ...

    def facts(self, prepared: Any) -> Mapping[str, Facts]:
        """Return the facts of each process, by its path.

        fingerprint: tells the process from another start of it; Recorded has that of the one that runs.
        services: the variables of the services that it uses. secret_digests: what stands for its secret_env.
        """
        ...

    def expand(self, prepared: Any, context: Context, components: Components) -> None:
        """Register the Pulumi resources, and do nothing else."""
        ...

    def manifests(self, prepared: Any) -> Sequence[Mapping[str, Any]]:
        """Return the objects that `expand` makes, without the values of secrets; none in some backends."""
        ...
