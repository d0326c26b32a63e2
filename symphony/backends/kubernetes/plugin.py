"""Finds the plugins with which the engine makes resources on Kubernetes, and clusters."""

from __future__ import annotations

import os
import shutil
import urllib.error
import urllib.request
from importlib import metadata
from pathlib import Path

from symphony import paths
from symphony.errors import SymphonyError

KUBERNETES, GCP = "kubernetes", "gcp"
# The hosts of plugins, in the order of the engine, which waits minutes in silence for one that is down.
_HOSTS = ("https://api.github.com", "https://get.pulumi.com")
_SECONDS = 5.0


def program(name: str) -> str:
    """Return the name of a plugin's program."""
    return f"pulumi-resource-{name}"


def find(name: str, version: str) -> Path | None:
    """Return the plugin that the engine would run, on PATH or in its plugin folder; None if there is none."""
    if executable := shutil.which(program(name)):
        return Path(executable)
    return place(name, version) if place(name, version).exists() else None


def require(name: str) -> None:
    """Raise SymphonyError if the engine has no plugin and cannot download it."""
    version = metadata.version(f"pulumi-{name}")
    if find(name, version) or "PULUMI_PLUGIN_DOWNLOAD_URL_OVERRIDES" in os.environ:
        return
    if any(map(_answers, _HOSTS)):
        return
    raise SymphonyError(
        f"Pulumi's plugin {name} {version} is not installed, and {' and '.join(_HOSTS)} do not answer",
        remedy=f"Set https_proxy, or run `pulumi plugin install resource {name} {version} --file FILE`",
    )


def _answers(host: str) -> bool:
    try:
        urllib.request.urlopen(host, timeout=_SECONDS).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False
    return True


def place(name: str, version: str) -> Path:
    """Return the path at which the engine keeps a version of a plugin."""
    return paths.pulumi_home() / "plugins" / f"resource-{name}-v{version}" / program(name)
