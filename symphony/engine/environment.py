"""The environment of an engine process: which state, secrets and Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from symphony import paths, run_request
from symphony.engine.binary import Engine
from symphony.engine.state import passphrase

# The caller's umask, for whoever starts the user's own programs: the engine itself runs with 077.
UMASK_VARIABLE = "SYMPHONY_UMASK"

# What the engine starts as Python, the script that may stand in front of it, and the interpreter behind that.
PYTHON_VARIABLES = ("PULUMI_PYTHON_CMD", "SYMPHONY_PYTHON", "SYMPHONY_PYTHON_CMD")
_NO_PLUGINS = "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"
_PYTHON = Path(__file__).parent / "tuning" / "python.sh"
# What stands for programs of Pulumi's: it finds them on PATH before those beside the engine.
BIN = Path(__file__).with_name("bin")

# In percent of what lives. With Go's own 100 an engine spends a fifth of its work on clearing up; one of 900
# resources takes 274 MB so instead of 242.
_COLLECT_AT = "200"


def for_engine(
    engine: Engine,
    *,
    extra: Mapping[str, str] | None = None,
    fetch_plugins: bool = False,
    own_python: bool = False,
) -> dict[str, str]:
    """What an engine process gets: the caller's environment, our defaults under it, `extra` over both.

    fetch_plugins: let the engine download what a program asks for; not for tmux, where every `pulumi-*`
                   distribution of the environment would be asked for on each run.
    own_python:    the project names a virtualenv, so leave the choice of the interpreter to it.
    """
    env = dict(os.environ)
    env["PATH"] = path_with(engine, env.get("PATH", os.defpath))
    for name, value in defaults().items():
        env.setdefault(name, value)
    if fetch_plugins and UMASK_VARIABLE in env:
        # A shell that took our exports has the value for tmux.
        env.pop(_NO_PLUGINS, None)
    env.setdefault(_NO_PLUGINS, "false" if fetch_plugins else "true")
    env[run_request.PLUGINS] = "fetched" if fetch_plugins else "none"
    if own_python:
        env.setdefault("SYMPHONY_PYTHON", str(_PYTHON))
    elif "PULUMI_PYTHON_CMD" not in env:
        env.update(for_python())
    env.setdefault("GOGC", _COLLECT_AT)
    # A shell that took our exports has 077 itself and says here what it had before.
    env.setdefault(UMASK_VARIABLE, f"{paths.umask():04o}")
    env.update(extra or {})
    return env


def defaults() -> dict[str, str]:
    """What we set for an engine unless the user has; `symphony env` prints the same."""
    url = paths.store_url()
    chosen = {
        "PULUMI_BACKEND_URL": url,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # A stack streams its preview to us as it goes instead of one digest at the end.
        "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
    }
    if url.startswith("file://"):
        chosen["PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS"] = "true"
    return chosen | passphrase.variables(url)


def for_python() -> dict[str, str]:
    """What makes the engine start our own interpreter, and spares it the 0.2 s of pip on each run."""
    if not os.access(_PYTHON, os.X_OK):
        return {"PULUMI_PYTHON_CMD": sys.executable}
    return {"PULUMI_PYTHON_CMD": str(_PYTHON), "SYMPHONY_PYTHON_CMD": sys.executable}


def path_with(engine: Engine, path: str) -> str:
    """PATH with our folder and the engine's first, once."""
    first = [str(BIN), str(engine.folder)]
    return os.pathsep.join([*first, *(part for part in path.split(os.pathsep) if part and part not in first)])
