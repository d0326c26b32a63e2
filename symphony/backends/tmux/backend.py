"""The tmux backend: an experiment is a session, a process a window, a service a port of this machine."""

from symphony.backends.registry import Backend

BACKEND = Backend(
    "tmux",
    "symphony.backends.tmux",
    local=True,
    settings=frozenset(
        {
            "args",
            "cmds",
            "command",
            "configs",
            "depends_on",
            "idle_after",
            "inherit",
            "liveness_probe",
            "port_range",
            "preamble_cmds",
            "primary",
            "readiness_probe",
            "resource_limit",
            "restart_policy",
            "secret_env",
            "secrets",
            "start_dir",
            "stop_after",
            "termination_delay",
        }
    ),
    cluster="symphony.classic.cluster:TmuxCluster",
    stack_settings="symphony.backends.tmux.settings:Settings",
)
