"""The tmux backend: an experiment is a session, a process a window, a service a port of this machine."""

from symphony.backends.registry import COMMON_SETTINGS, Backend

BACKEND = Backend(
    "tmux",
    "symphony.backends.tmux",
    local=True,
    settings=COMMON_SETTINGS
    | {
        "inherit",
        "port_range",
    },
    cluster="symphony.classic.cluster:TmuxCluster",
    stack_settings="symphony.backends.tmux.settings:Settings",
)
