"""The resources Allocation and Step and their dynamic providers; allocations.py and steps.py do the work.

Module path and class names of the providers lie in the state of every user: never move or rename them.
"""

from __future__ import annotations

from symphony_dynamic.provider import CrudProvider, DynamicResource
from symphony_slurm import allocations, steps
from symphony_slurm.observe import Queue


class AllocationProvider(CrudProvider[Queue]):
    """The dynamic provider of Allocation."""

    _crud = allocations
    # All resources of a run of the engine share it.
    _run = Queue()


class StepProvider(CrudProvider[Queue]):
    """The dynamic provider of Step."""

    _crud = steps
    _run = AllocationProvider._run  # pyright: ignore[reportPrivateUsage]


ALLOCATION_TYPE = "pulumi-python:dynamic/symphony_slurm:Allocation"
STEP_TYPE = "pulumi-python:dynamic/symphony_slurm:Step"
ALLOCATION_PROVIDER = AllocationProvider.state_text()
STEP_PROVIDER = StepProvider.state_text()


class Allocation(DynamicResource):
    """One experiment: a job of Slurm and a folder on the shared disk; see AllocationInputs."""

    TYPE, PROVIDER = ALLOCATION_TYPE, ALLOCATION_PROVIDER


class Step(DynamicResource):
    """One process: a step of the job; see StepInputs."""

    TYPE, PROVIDER = STEP_TYPE, STEP_PROVIDER
