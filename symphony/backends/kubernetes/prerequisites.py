"""What Kubernetes experiments need on this machine: packages, plugin, kubeconfig."""

from __future__ import annotations

from importlib import metadata

from symphony.backends.kubernetes import plugin
from symphony.backends.kubernetes.api import kubeconfig
from symphony.backends.prerequisites import Finding
from symphony.errors import SymphonyError


def findings() -> list[Finding]:
    return [_extra("kubernetes"), _plugin(), _kubeconfig(), _extra("gcp")]


def _extra(name: str) -> Finding:
    distribution = f"pulumi-{name}"
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        get = f"pip install 'symphony-launch[{name}]'"
        return Finding(f"{name} (optional)", False, get=get, needed=False)
    return Finding(f"{name} (optional)", True, version, distribution, needed=False)


def _plugin() -> Finding:
    """What makes resources on Kubernetes: Pulumi's own plugin, or the stand-in of this repository's tests."""
    name = "kube plugin (optional)"
    try:
        version = metadata.version("pulumi-kubernetes")
    except metadata.PackageNotFoundError:
        return Finding(name, False, get="goes with kubernetes, above", needed=False)
    place = plugin.find(plugin.KUBERNETES, version)
    if place is None:
        return Finding(name, False, get="`symphony up` gets it by itself", needed=False)
    try:
        kind = "a stand-in" if plugin.is_script(place) else version
    except OSError as error:
        return Finding(name, False, get=f"remove {place}: {error.strerror}", needed=False)
    return Finding(name, True, kind, str(place), needed=False)


def _kubeconfig() -> Finding:
    """Read and not tried: a cluster that does not answer would hold up whoever only uses tmux."""
    name = "kubeconfig (optional)"
    try:
        place, context = kubeconfig.current()
    except SymphonyError as error:
        get = error.line if kubeconfig.exists() else "export KUBECONFIG=FILE"
        return Finding(name, False, get=get, needed=False)
    return Finding(name, True, f"context {context}" if context else "", place, needed=False)
