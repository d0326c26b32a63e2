"""The Kubernetes backend's `prerequisites`: packages, plugins, kubeconfig, gcloud."""

from __future__ import annotations

import configparser
import os
import shutil
import urllib.error
import urllib.request
from importlib import metadata
from pathlib import Path

from symphony import paths
from symphony.backends.kubernetes.api import kubeconfig
from symphony.backends.registry import Finding
from symphony.errors import SymphonyError

KUBERNETES, GCP = "kubernetes", "gcp"
# The hosts from which the engine downloads plugins, in its order. Here they are only asked for an answer: the
# engine waits minutes in silence for one that is down. PULUMI_PLUGIN_DOWNLOAD_URL_OVERRIDES names a mirror.
_HOSTS = ("https://api.github.com", "https://get.pulumi.com")
# How long a host of the download may take to answer; the engine's download itself has no limit here.
_SECONDS = 5.0


def findings() -> list[Finding]:
    """Return the prerequisites of experiments on Kubernetes and GKE; tmux needs none of them."""
    return [
        _extra("kubernetes"),
        _plugin("kube plugin", KUBERNETES),
        _kubeconfig(),
        _extra("gcp"),
        _plugin("gcp plugin", GCP),
        _program("gcloud", "gcloud", "cloud.google.com/sdk/docs/install"),
        _program("auth plugin", "gke-gcloud-auth-plugin", "gcloud components install gke-gcloud-auth-plugin"),
        _project(),
    ]


def _extra(name: str) -> Finding:
    """Find the package that an extra of pip installs, such as pulumi-kubernetes."""
    distribution = f"pulumi-{name}"
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        get = f"pip install 'symphony-launch[{name}]'"
        return Finding(f"{name} (optional)", False, get=get, needed=False)
    return Finding(f"{name} (optional)", True, version, distribution, needed=False)


def _plugin(label: str, plugin_name: str) -> Finding:
    """Find a resource plugin of the engine."""
    name = f"{label} (optional)"
    try:
        version = metadata.version(f"pulumi-{plugin_name}")
    except metadata.PackageNotFoundError:
        return Finding(name, False, get=f"install the package pulumi-{plugin_name} first", needed=False)
    file = find_plugin(plugin_name, version)
    if file is None:
        return Finding(name, False, get="`symphony up` installs it", needed=False)
    return Finding(name, True, version, str(file), needed=False)


def _program(label: str, program: str, get: str) -> Finding:
    """Find a program that logs in to clusters on GKE."""
    file = shutil.which(program) or ""
    return Finding(f"{label} (optional)", bool(file), place=file, get=get, needed=False)


def _project() -> Finding:
    """Find gcloud's default project; a stack may override it with gcp:project."""
    folder = Path(os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud")
    name, get = "gcp project (optional)", "gcloud config set project PROJECT"
    parser = configparser.ConfigParser(interpolation=None)
    try:
        file = folder / "active_config"
        active = file.read_text().strip() if file.exists() else "default"
        place = folder / "configurations" / f"config_{active}"
        parser.read_string(place.read_text())
        project = parser.get("core", "project", fallback="")
    except (OSError, UnicodeDecodeError, configparser.Error):
        return Finding(name, False, get=get, needed=False)
    return Finding(name, bool(project), project, str(place), get=get, needed=False)


def _kubeconfig() -> Finding:
    """Find the kubeconfig without asking the cluster, which may not answer."""
    name = "kubeconfig (optional)"
    try:
        place, context = kubeconfig.current()
    except SymphonyError as error:
        get = error.line if kubeconfig.exists() else "export KUBECONFIG=FILE"
        return Finding(name, False, get=get, needed=False)
    return Finding(name, True, f"context {context}" if context else "", place, needed=False)


def plugin_program(name: str) -> str:
    """Return the name of a plugin's program."""
    return f"pulumi-resource-{name}"


def find_plugin(name: str, version: str) -> Path | None:
    """Return the plugin that the engine would run, on PATH or in its plugin folder; None if there is none."""
    if executable := shutil.which(plugin_program(name)):
        return Path(executable)
    place = plugin_place(name, version)
    return place if place.exists() else None


def require_plugin(name: str) -> None:
    """Raise SymphonyError if the engine has no plugin and cannot download it."""
    version = metadata.version(f"pulumi-{name}")
    if find_plugin(name, version) or "PULUMI_PLUGIN_DOWNLOAD_URL_OVERRIDES" in os.environ:
        return
    if any(map(_answers, _HOSTS)):
        return
    raise SymphonyError(
        f"Pulumi's plugin {name} {version} is not installed, and {' and '.join(_HOSTS)} do not answer",
        remedy='Set https_proxy, or run `eval "$(symphony env)"; pulumi plugin install resource'
        f" {name} {version} --file FILE`",
    )


def _answers(host: str) -> bool:
    try:
        urllib.request.urlopen(host, timeout=_SECONDS).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False
    return True


def plugin_place(name: str, version: str) -> Path:
    """Return the path at which the engine keeps a version of a plugin."""
    return paths.pulumi_home() / "plugins" / f"resource-{name}-v{version}" / plugin_program(name)
