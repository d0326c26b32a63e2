"""The protocol of a backend's module `expand`, which registers the Pulumi resources of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pulumi

    from symphony.backends.stack_settings import StackSettings
    from symphony.plan.backend_limits import BackendLimits
    from symphony.plan.plan import Plan, PlannedImage
    from symphony.spec.experiment import ExperimentSpec
    from symphony_docker.provider import ImageResource

# What a backend adds to the inputs of the component of a process, besides its plan.
ComponentInputs = Mapping[str, Any]


@dataclass(frozen=True)
class Context:
    """The stack of the running program, and its settings.

    Attributes:
        owner: The owner id of this stack, unique among all stacks and state stores.
        physical_name: The name of the tmux session, the namespace or the Slurm job.
        offline: Whether no cluster may be asked: manifests are wanted as if the stack were not up.
        recorded: The uids of the processes in its state; None if unknown, under a plain `pulumi`.
        images: The images to build for the experiment.
        is_partial: Whether the run restarts some processes and leaves all others unchanged.
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
    """The components under which a backend registers resources; processes by path, groups by name.

    images: the resources of images to build, by their names in the plan.
    """

    experiment: pulumi.Resource
    groups: Mapping[str, pulumi.Resource]
    processes: Mapping[str, pulumi.Resource]
    images: Mapping[str, ImageResource] = field(default_factory=dict[str, "ImageResource"])


class Expander(Protocol):
    """A backend's module `expand`, which runs inside the user's Pulumi program."""

    def limits(self, spec: ExperimentSpec, context: Context) -> BackendLimits:
        """Return the limits of the backend and the problems that it sees in this experiment."""
        ...

    def image_registry(self, context: Context) -> str:
        """Return the registry to push to if symphony:registry is not set; empty if there is none."""
        ...

    def prepare(self, plan: Plan, spec: ExperimentSpec, context: Context) -> Any:
        """Return the plan in this backend's terms, for the other functions."""
        ...

    def component_inputs(self, prepared: Any) -> Mapping[str, ComponentInputs]:
        """Return the inputs that each process's component has besides its plan, by path.

        fingerprint: if it differs from the recorded fingerprint, the process restarts.
        services: the variables of the services that it uses. secret_digests: digests of its secret_env.
        """
        ...

    def expand(self, prepared: Any, context: Context, components: Components) -> None:
        """Register the Pulumi resources; on Kubernetes, also delete the objects that they replace."""
        ...

    def manifests(self, prepared: Any) -> Sequence[Mapping[str, Any]]:
        """Return the objects that `expand` registers, without secret values; empty in some backends."""
        ...
