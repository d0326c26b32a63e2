"""What a plain `pulumi` needs in its environment to use the same engine and state."""

from __future__ import annotations

import os

from symphony.engine import binary, environment, workspace
from symphony.engine.state import file_store


def exports() -> dict[str, str]:
    """The variables and their values; what the user has set already keeps its value."""
    engine = binary.require()
    file_store.prepare()
    here = workspace.find_usable()
    env = environment.for_engine(engine, own_python=here is not None and here.virtualenv is not None)
    # A project that names no virtualenv runs under the Python that symphony is installed in.
    wanted = [
        *environment.defaults(),
        *environment.PYTHON_VARIABLES,
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION",
        environment.UMASK_VARIABLE,
    ]
    named = {name: env[name] for name in sorted(wanted) if name in env}
    named.pop("PULUMI_ENABLE_STREAMING_JSON_PREVIEW", None)
    return {"PATH": environment.path_with(engine, os.environ.get("PATH", os.defpath)), **named}
