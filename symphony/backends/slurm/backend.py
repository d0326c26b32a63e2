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
            "port_range",
            "preamble_cmds",
            "resource_limit",
            "resource_request",
            "restart_policy",
            "secret_env",
            "secrets",
            "start_dir",
        }
    ),
    stack_settings="symphony.backends.slurm.settings:Settings",
)
