"""The row of the backend; it mounts nothing, keeps no secrets and starts nothing again by itself."""

from symphony.backends.registry import Backend

BACKEND = Backend(
    "subprocess",
    "symphony_subprocess",
    local=True,
    settings=frozenset({"args", "command", "start_dir"}),
)
