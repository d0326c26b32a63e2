"""The settings of a stack on Kubernetes."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

from symphony.backends.expand import Context
from symphony.backends.stack_settings import StackSettings, setting
from symphony.plan.names import physical_name


def _ranges(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ranges as Kubernetes wants them, with the lengths of their prefixes."""
    return tuple(str(ipaddress.ip_network(each, strict=False)) for each in texts)


@dataclass(frozen=True, kw_only=True)
class Settings(StackSettings):
    """The settings of a stack that this backend uses."""

    cluster: str | None = setting(
        str,
        None,
        "The stack whose GkeCluster it runs on: STACK of this project, or PROJECT/STACK.",
        otherwise="where the kubeconfig leads",
    )
    prices: str | None = setting(
        str,
        None,
        "Price list used by `symphony plan`.",
        otherwise="Google's list prices",
    )
    image: str | None = setting(str, None, "The image of processes without one of their own.")
    expose: str = setting(
        Literal["ClusterIP", "NodePort", "LoadBalancer"],
        "ClusterIP",
        "How the services of `exposes` are reached: a ClusterIP is forwarded by `symphony visit`, a NodePort"
        " is a port that the cluster chooses, a LoadBalancer needs symphony:sourceRanges.",
    )
    source_ranges: tuple[str, ...] = setting(
        tuple[str, ...],
        (),
        "The address ranges that may reach a LoadBalancer.",
        takes="a list: 203.0.113.0/24",
        convert=_ranges,
    )
    pod_security: str = setting(
        Literal["baseline", "restricted", "privileged"],
        "baseline",
        "The Pod Security level of the namespace; host paths need privileged. An existing one keeps its own.",
    )
    pull_secrets: tuple[str, ...] = setting(
        tuple[str, ...],
        (),
        "The Secrets with which images are pulled. Create them, and their namespace, yourself.",
    )
    create_namespace: bool = setting(bool, True, "Set to false where an administrator creates the namespace.")
    controller: str = setting(
        Literal["Pod", "Job"],
        "Pod",
        "Controller that owns the pods; a Job replaces a pod lost with its node.",
    )
    git_image: str = setting(str, "alpine/git", "The image that clones the repositories of `mount_git_repo`.")

    supervisor_image: str = setting(
        str,
        "python:3-alpine",
        "The image, with Python 3, that starts processes in their order and ends experiments.",
    )

    # Not a setting: the prefix of object names where experiments may share the namespace.
    shared_as: str = ""

    def named(self, name: str) -> str:
        """Return the name of an object of the experiment."""
        return f"{self.shared_as}-{name}" if self.shared_as else name

    @property
    def grace_seconds(self) -> int:
        """Grace in whole seconds, as Kubernetes takes it; 0 kills at once."""
        return math.ceil(self.grace)

    def clashes(self) -> Iterator[tuple[str, str, str]]:
        if self.expose == "LoadBalancer" and not self.source_ranges:
            yield (
                "expose",
                "would open a LoadBalancer to the whole internet",
                "set who may reach it with symphony:sourceRanges, such as 203.0.113.0/24",
            )


def settings_of(context: Context) -> Settings:
    """Return the settings of the running program, which are of this backend."""
    settings = cast("Settings", context.settings)
    return replace(
        settings, shared_as="" if settings.create_namespace else physical_name(context.stack, label=True)
    )
