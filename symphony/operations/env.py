"""What a plain `pulumi` needs in its environment to use the same engine and state; cli/env.py prints it."""

from __future__ import annotations

import os

from symphony.engine import binary, environment, store


def exports() -> dict[str, str]:
    """The variables and their values; what the user has set already keeps its value."""
    engine = binary.require()
    store.prepare()
    env = environment.for_engine(engine)
    named = {name: env[name] for name in sorted(environment.defaults()) if name in env}
    named.pop("PULUMI_ENABLE_STREAMING_JSON_PREVIEW", None)
    return {"PATH": environment.path_with(engine, os.environ.get("PATH", os.defpath)), **named}
