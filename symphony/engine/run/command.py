"""The command that starts an engine and the processes that serve it: the program, the providers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from symphony import socket_relay
from symphony.engine import workspace as workspaces
from symphony.engine.run import start
from symphony.engine.state import file_store
from symphony.engine.workspace import Workspace
from symphony.errors import SymphonyError, UserError

# "host" leaves the engine in the network of the machine.
NETWORK = "SYMPHONY_NETWORK"
# The types in the state of an engine that needs no network: the providers outside make these resources.
_LOCAL = ("symphony:", "pulumi:", "pulumi-python:")


def engine_command(
    engine: Sequence[str],
    folder: Path,
    workspace: Workspace,
    env: Mapping[str, str],
    *,
    serves_program: bool,
    skips_checkpoints: bool,
    namespace: bool,
) -> list[str]:
    """Return the command that starts everything.

    Args:
        engine: The command of the engine.
        folder: A private folder for the sockets of this run.
        workspace: The project.
        env: The environment of the engine.
        serves_program: Start a server of the project's program at the socket start.PROGRAM.
        skips_checkpoints: The program may register only resources of ours.
        namespace: Run the engine in a network namespace if this machine allows it.
    """
    python = python_of(workspace, env)
    environment = _activated(workspace, python, env)
    project = workspace.program.parent
    program = [python, "-u", "-P", "-m", "symphony.engine.run.program_host", str(folder)]
    parameters: dict[str, Any] = {
        "folder": str(folder),
        "engine": list(engine),
        "program": {
            "command": [*program, "--skips-checkpoints"] if skips_checkpoints else program,
            "environment": environment,
            "folder": str(project),
        }
        if serves_program
        else None,
        "providers": {
            "command": [python, "-u", "-m", "symphony_dynamic.host", "--attached", str(folder)],
            "environment": {**environment, "PULUMI_PROJECT": workspace.project},
            "folder": str(project if project.is_dir() else workspace.folder),
        },
        "doors": [sys.executable, "-I", "-S", socket_relay.__file__, str(folder)],
        "namespace": namespace,
    }
    return [sys.executable, "-I", "-S", start.__file__, json.dumps(parameters)]


def needs_no_network(workspace: Workspace, stack: str, env: Mapping[str, str]) -> bool:
    """Return whether nothing of this stack needs the network in its engine."""
    if sys.platform != "linux" or env.get(NETWORK) == "host" or not file_store.is_files():
        return False
    if workspaces.keeps_secrets_elsewhere(workspace, stack):
        return False
    try:
        resources = file_store.read(file_store.StackName(workspace.project, stack)).resources
    except KeyError:
        return True
    except SymphonyError:
        return False
    return all(resource.type.startswith(_LOCAL) for resource in resources)


def require_symphony(workspace: Workspace, stack: str, env: Mapping[str, str]) -> None:
    """Raise UserError if the interpreter of the project has no symphony, which runs the program."""
    if workspace.virtualenv is None:
        return
    python = python_of(workspace, env)
    asked = [
        python,
        "-P",
        "-c",
        "import importlib.util, sys; sys.exit(not importlib.util.find_spec('symphony'))",
    ]
    if subprocess.run(asked, timeout=60, check=False, capture_output=True).returncode:
        raise UserError(
            f"the Python that runs the program of {stack} has no symphony",
            where=str(workspace.folder / "Pulumi.yaml"),
            remedy="Install symphony in the virtualenv named there, or remove that line to use this Python",
        )


def python_of(workspace: Workspace, env: Mapping[str, str]) -> str:
    """Return the interpreter of the project; a deletion, which runs no program, works without it as well."""
    if workspace.virtualenv is not None:
        python = workspace.folder / workspace.virtualenv / "bin" / "python"
        return str(python) if python.exists() else sys.executable
    return shutil.which(env.get("PULUMI_PYTHON_CMD", sys.executable)) or sys.executable


def _activated(workspace: Workspace, python: str, env: Mapping[str, str]) -> dict[str, str]:
    """Let the processes of an experiment find the programs of the project's virtualenv first."""
    if workspace.virtualenv is None or python == sys.executable:
        return {}
    folder = Path(python).parent
    path = env.get("PATH", os.defpath)
    return {"PATH": f"{folder}{os.pathsep}{path}", "VIRTUAL_ENV": str(folder.parent)}
