"""The Slurm backend: an experiment is a job, a process a step, a service a port of a node."""

from symphony.backends.registry import Backend

BACKEND = Backend(
    "slurm",
    "symphony.backends.slurm",
    settings=frozenset(
        {
            "args",
            "cmds",
            "command",
            "configs",
            "depends_on",
            "inherit",
            "liveness_probe",
            "place",
            "port_range",
            "preamble_cmds",
            "primary",
            "readiness_probe",
            "resource_limit",
            "resource_request",
            "restart_policy",
            "secret_env",
            "secrets",
            "start_dir",
            "stop_after",
            "termination_delay",
        }
    ),
    stack_settings="symphony.backends.slurm.settings:Settings",
)
