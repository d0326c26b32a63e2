"""The rule for problems that only the backend can see."""

from __future__ import annotations

from collections.abc import Iterator

from symphony.plan.problems import Problem
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec


def backend_does_not_object(_spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    yield from target.problems
