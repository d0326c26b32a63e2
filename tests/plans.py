"""The problems of a declaration, and a plan as users read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symphony.plan.backend_limits import BackendLimits
from symphony.plan.build import build_plan
from symphony.plan.plan import Plan, whole
from symphony.plan.problems import PlanError, Problem
from symphony.spec.experiment import ExperimentSpec


def problems(
    spec: ExperimentSpec, limits: BackendLimits, image_problems: Sequence[Problem] = ()
) -> tuple[Problem, ...]:
    """Return every reason why the experiment cannot run, in the order of the program."""
    try:
        build_plan(spec, limits, image_problems)
    except PlanError as error:
        return tuple(error.problems)
    return ()


def shown(plan: Plan) -> dict[str, Any]:
    """Return what `symphony plan --json` shows of a plan."""
    processes, groups = plan.process_inputs().values(), plan.group_inputs().values()
    return whole(plan.experiment_inputs(), [*processes], [*groups])
