"""Where the plugins are with which the engine makes resources on Kubernetes, and clusters."""

from __future__ import annotations

import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from symphony import paths
from symphony.errors import SymphonyError

KUBERNETES, GCP = "kubernetes", "gcp"
# Where the engine gets plugins, in turn; for one that does not answer it waits without a word, for minutes.
_HOSTS = ("https://api.github.com", "https://get.pulumi.com")
_SECONDS = 5.0


def program(name: str) -> str:
    """What the program of a plugin is called."""
    return f"pulumi-resource-{name}"


def find(name: str, version: str) -> Path | None:
    """What the engine would run: one on PATH, else of this version in its own folder; None: it gets one."""
    if executable := shutil.which(program(name)):
        return Path(executable)
    return place(name, version) if place(name, version).exists() else None


def require(name: str) -> None:
    """Raise SymphonyError where the engine has no plugin and no host to get it from."""
    version = metadata.version(f"pulumi-{name}")
    if (
        find(name, version)
        or "PULUMI_PLUGIN_DOWNLOAD_URL_OVERRIDES" in os.environ
        or any(map(_answers, _HOSTS))
    ):
        return
    raise SymphonyError(
        f"Pulumi's plugin {name} {version} is not on this machine, and {' and '.join(_HOSTS)} do not answer",
        remedy=f"Check https_proxy, or run `pulumi plugin install resource {name} {version} --file FILE`",
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
    """Where the engine keeps the one of a version."""
    return _folder() / f"resource-{name}-v{version}" / program(name)


def kept(name: str) -> Iterable[Path]:
    """Those of all versions that the engine keeps."""
    return _folder().glob(f"resource-{name}-v*/{program(name)}")


def is_script(place: Path) -> bool:
    """Whether it is the text of a program, as stand-ins are, and nothing compiled."""
    with place.open("rb") as file:
        return file.read(2) == b"#!"


def _folder() -> Path:
    return paths.pulumi_home() / "plugins"
