"""The row of tmux: an experiment is a session, a process a window, a service a port of this machine."""

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
            "inherit",
            "port_range",
            "preamble_cmds",
            "restart_policy",
            "secret_env",
            "secrets",
            "start_dir",
        }
    ),
    cluster="symphony.classic.cluster:TmuxCluster",
    stack_settings="symphony.backends.tmux.settings:Settings",
)
