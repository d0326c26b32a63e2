"""Runs the engine of a tmux stack in a network namespace, where no other user can dial it.

Engine and language host do what anyone says who dials them. They need no network when all they reach is the
provider of tmux: it stays outside with the program, and sockets in a private folder join them.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from symphony.engine import workspace as workspaces
from symphony.engine.run import enter_namespace, relay
from symphony.engine.state import file_store
from symphony.engine.workspace import Workspace
from symphony.errors import SymphonyError

# "host" leaves the engine in the network of the machine: for plugins that need it.
VARIABLE = "SYMPHONY_NETWORK"
_PROVIDER_SOCKET = "provider"
_EXECUTOR = "pulumi-language-python-exec"
# What a state holds whose engine needs no network: components, notes, and what the provider outside makes.
_LOCAL = ("symphony:", "pulumi:", "pulumi-python:")
_HOST_MODULE = "symphony.engine.run.program_host"


def is_wanted(workspace: Workspace, stack: str, env: Mapping[str, str]) -> bool:
    """Whether nothing of this stack needs the network in its engine."""
    if sys.platform != "linux" or env.get(VARIABLE) == "host" or not file_store.is_files():
        return False
    if workspaces.keeps_secrets_elsewhere(workspace, stack) or not _python(workspace, env):
        return False
    try:
        resources = file_store.read(file_store.StackName(workspace.project, stack)).resources
    except KeyError:
        return True
    except SymphonyError:
        return False
    return all(resource.type.startswith(_LOCAL) for resource in resources)


def command(
    plain: Sequence[str],
    isolated: Sequence[str],
    folder: Path,
    workspace: Workspace,
    env: Mapping[str, str],
    *,
    program: bool,
) -> list[str]:
    """The command that starts `isolated` in a namespace, or `plain` where this machine allows none.

    folder: private to the run, for the sockets. program: the program is a process of its own to start.
    """
    python = _python(workspace, env)
    provider: dict[str, Any] = {
        "command": [_provider_python(python), "-u", "-m", "symphony_dynamic.host"],
        "environment": {
            **_activated(workspace, python, env),
            "SYMPHONY_PROVIDER_SOCKET": str(folder / _PROVIDER_SOCKET),
            "PULUMI_PROJECT": workspace.project,
        },
        "folder": str(workspace.program.parent),
    }
    host: dict[str, Any] = {
        "command": [sys.executable, "-I", "-m", _HOST_MODULE, str(folder), python, _executor(plain[0], env)],
        "environment": _activated(workspace, python, env),
        "folder": "/",
    }
    script = [sys.executable, "-I", "-S", relay.__file__]
    given = {
        "outside": [provider, host] if program else [provider],
        "relay": [*script, "dial", str(folder)],
        "socket": str(folder / relay.DIALED),
        "environment": {
            "SYMPHONY_PROVIDER_SOCKET": str(folder / _PROVIDER_SOCKET),
            "SYMPHONY_RELAY_PYTHON": sys.executable,
        },
        "command": list(isolated),
        "otherwise": list(plain),
    }
    return [sys.executable, "-I", "-S", enter_namespace.__file__, json.dumps(given)]


def _python(workspace: Workspace, env: Mapping[str, str]) -> str:
    """The interpreter of the program; none where the engine's own host has to say what is wrong with it."""
    if workspace.virtualenv is None:
        python = env.get("SYMPHONY_PYTHON_CMD") or env.get("PULUMI_PYTHON_CMD") or sys.executable
    else:
        python = str(workspace.folder / workspace.virtualenv / "bin" / "python")
    return shutil.which(python) or ""


def _provider_python(python: str) -> str:
    """That of the program, whose own providers it may have to load, unless it has no symphony."""
    packages = Path(python).parent.parent.glob("lib/python*/site-packages/symphony_launch-*")
    return python if next(packages, None) else sys.executable


def _activated(workspace: Workspace, python: str, env: Mapping[str, str]) -> dict[str, str]:
    """The processes of an experiment find the programs of the project's virtualenv first."""
    if workspace.virtualenv is None:
        return {}
    folder = Path(python).parent
    path = env.get("PATH", os.defpath)
    return {"PATH": f"{folder}{os.pathsep}{path}", "VIRTUAL_ENV": str(folder.parent)}


def _executor(pulumi: str, env: Mapping[str, str]) -> str:
    beside = Path(pulumi).resolve().parent / _EXECUTOR
    return str(beside) if beside.is_file() else shutil.which(_EXECUTOR, path=env.get("PATH")) or str(beside)
