"""What a world must offer so that an experiment can be expanded in it, and how its package is found."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from symphony.plan.worlds import WORLDS
from symphony.spec.experiment import ExperimentSpec

if TYPE_CHECKING:
    from symphony.components.experiment import Experiment
    from symphony.components.run import Context
    from symphony.plan.plan import Plan
    from symphony.plan.target import Target

Rendered = Mapping[str, Mapping[str, Any]]


class Expander(Protocol):
    """The half of a backend that runs inside the user's Pulumi program: its module `expand`."""

    def target(self, spec: ExperimentSpec, context: Context) -> Target:
        """What the world can do for this experiment, and what it would hand out; changes nothing."""
        ...

    def expand(self, plan: Plan, context: Context, experiment: Experiment) -> Rendered:
        """Make the Pulumi resources of the plan; return the inputs of each process by its path."""
        ...


def expander_of(world: str) -> Expander:
    """The expander of a world; its libraries load only now."""
    return cast("Expander", importlib.import_module(f"{WORLDS[world]}.expand"))
