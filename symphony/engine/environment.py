"""The environment variables of engine processes: state, passphrase, Python."""

import os
import pwd
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from symphony import paths, run_request
from symphony.errors import SymphonyError

# The caller's umask, for the processes of an experiment: the engine itself runs with 077.
UMASK_VARIABLE = "SYMPHONY_UMASK"
# Set by the exports of `symphony env`.
EXPORTED = "SYMPHONY_ENV"
PASSPHRASES = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")
NO_PLUGINS = "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"
# Variables that the engine needs on some machines: the user's name, and the hosts that
# gRPC reaches without a proxy.
MACHINE_VARIABLES = ("USER", "no_grpc_proxy")
# The folder of symphony's plugin `pulumi-python`: with it on PATH, a plain `pulumi` starts this one.
BIN = Path(__file__).with_name("bin")
# The variables in which gRPC looks for a proxy.
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
# The percentage by which the heap grows between two garbage collections. With Go's default of 100, an engine
# spends a fifth of its time on them. With 200, an engine of 900 resources takes 274 MB instead of 242.
_GOGC = "200"


def for_engine(*, extra: Mapping[str, str] | None = None, fetch_plugins: bool = False) -> dict[str, str]:
    """Return the caller's environment, with defaults for unset variables and with `extra` over both.

    Args:
        extra: Variables of this run.
        fetch_plugins: Let the engine download the plugins of the resources that a program registers.
    """
    env = dict(os.environ)
    for name, value in defaults().items():
        env.setdefault(name, value)
    # Relative paths mean the caller's folder, and the engine runs in that of the project.
    env["PULUMI_BACKEND_URL"] = paths.store_url()
    if env.get("SYMPHONY_HOME"):
        env["SYMPHONY_HOME"] = str(paths.home())
    if fetch_plugins and EXPORTED in env:
        # The exports of `symphony env` disable the download of plugins.
        env.pop(NO_PLUGINS, None)
    env.setdefault(NO_PLUGINS, "false" if fetch_plugins else "true")
    env[run_request.PLUGINS] = "fetched" if fetch_plugins else "none"
    env.setdefault("GOGC", _GOGC)
    if path := env.get("PATH"):
        # With the exports of `symphony env`, the engine would warn of the plugin there, which a run by
        # symphony does not use.
        env["PATH"] = os.pathsep.join(part for part in path.split(os.pathsep) if part != str(BIN))
    if not _has_name():
        # The engine writes its user into locks, and fails without one (`docker run -u 1234`).
        env.setdefault("USER", f"uid-{os.getuid()}")
    if has_proxy(env):
        # gRPC in Python would dial the engine, which is on this machine, through a proxy.
        direct = env.get("no_grpc_proxy") or env.get("no_proxy") or env.get("NO_PROXY")
        env["no_grpc_proxy"] = ",".join(filter(None, [direct, "127.0.0.1"]))
    env.setdefault(UMASK_VARIABLE, f"{paths.umask():04o}")
    env.update(extra or {})
    return env


def _has_name() -> bool:
    """Return whether the engine finds the name of this process's user in the database of users."""
    try:
        return bool(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:
        return False


def defaults() -> dict[str, str]:
    """Return the variables to set for an engine unless the user sets them.

    `symphony env` prints them and others, but not PULUMI_ENABLE_STREAMING_JSON_PREVIEW.
    """
    url = paths.store_url()
    variables = {
        "PULUMI_BACKEND_URL": url,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # A preview prints each event when it comes instead of a summary at its end.
        "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
    }
    if url.startswith("file://"):
        variables["PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS"] = "true"
    return variables | passphrase_variables(url)


def has_proxy(env: Mapping[str, str]) -> bool:
    """Return whether gRPC dials through a proxy in this environment."""
    return any(env.get(name) for name in _PROXIES)


def python() -> dict[str, str]:
    """Return the variable that makes Pulumi's language host use the Python the user set, else symphony's."""
    return {"PULUMI_PYTHON_CMD": os.environ.get("PULUMI_PYTHON_CMD", sys.executable)}


def path_with(path: str, *folders: Path) -> str:
    """Return PATH with the given folders first, without duplicates."""
    first = [str(folder) for folder in folders]
    return os.pathsep.join([*first, *(part for part in path.split(os.pathsep) if part and part not in first)])


def passphrase_variables(url: str) -> dict[str, str]:
    """Return the variable for symphony's passphrase file, unless the user set one or uses another store."""
    if any(name in os.environ for name in PASSPHRASES) or url != own_store():
        return {}
    return {"PULUMI_CONFIG_PASSPHRASE_FILE": str(ensure_passphrase())}


def own_store() -> str:
    """Return the URL of the store that symphony keeps for this user."""
    return f"file://{paths.home() / 'state'}"


def ensure_passphrase() -> Path:
    """Return the file with the generated passphrase of our own store; concurrent callers get the same one."""
    path = paths.home() / "passphrase"
    try:
        paths.new_file(path, secrets.token_urlsafe(32))
    except OSError as error:
        raise SymphonyError(
            f"the passphrase file cannot be written: {error.strerror}",
            where=str(path),
            remedy="Make its folder writable or set PULUMI_CONFIG_PASSPHRASE",
        ) from error
    return path
