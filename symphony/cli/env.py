"""`symphony env`: prints shell exports for a plain `pulumi`."""

import os
import shlex

from symphony.cli import arguments, screen
from symphony.engine import binary, environment, workspace
from symphony.engine.state import file_store


def command(as_json: arguments.AsJson = False) -> None:
    """Print shell exports so that plain `pulumi` uses the same engine and state.

    Examples:
        eval "$(symphony env)"
    """
    variables = _exports()
    if as_json:
        screen.show_json(variables)
        return
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")


def _exports() -> dict[str, str]:
    engine = binary.require()
    file_store.prepare()
    project = workspace.find_usable()
    env = environment.for_engine()
    names = {*environment.defaults(), environment.NO_PLUGINS, *environment.MACHINE_VARIABLES}
    # It would change the output of `pulumi preview --json`.
    names.discard("PULUMI_ENABLE_STREAMING_JSON_PREVIEW")
    variables = {name: env[name] for name in sorted(names) if name in env}
    variables[environment.EXPORTED] = "1"
    if project is None or project.virtualenv is None:
        variables |= environment.python()
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": environment.path_with(path, environment.BIN, engine.folder), **variables}
