"""The Slurm backend: an experiment is a job, a process a step, a service a port of a node."""

from symphony.backends.registry import COMMON_SETTINGS, Backend

BACKEND = Backend(
    "slurm",
    "symphony.backends.slurm",
    settings=COMMON_SETTINGS
    | {
        "inherit",
        "place",
        "port_range",
        "resource_request",
    },
    stack_settings="symphony.backends.slurm.settings:Settings",
)
