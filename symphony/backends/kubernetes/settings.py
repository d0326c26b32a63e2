"""The stack settings of the Kubernetes backend."""

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
    return tuple(str(ipaddress.ip_network(network, strict=False)) for network in texts)


@dataclass(frozen=True, kw_only=True)
class Settings(StackSettings):
    """The settings of a stack on Kubernetes."""

    cluster: str | None = setting(
        str,
        None,
        "The stack whose GkeCluster to run on: STACK of this project, or PROJECT/STACK.",
        otherwise="the kubeconfig's cluster",
    )
    image: str | None = setting(str, None, "The image of processes that set none.")
    expose: str = setting(
        Literal["ClusterIP", "NodePort", "LoadBalancer"],
        "ClusterIP",
        "The type of exposed Services: `symphony visit` forwards a ClusterIP; a NodePort is a port that the"
        " cluster chooses; a LoadBalancer needs symphony:sourceRanges.",
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
        "The Pod Security level of the namespace; host paths need privileged. A namespace that an"
        " administrator created keeps its level.",
    )
    pull_secrets: tuple[str, ...] = setting(
        tuple[str, ...],
        (),
        "The Secrets for pulling images. Create them, and the namespace, yourself.",
    )
    create_namespace: bool = setting(bool, True, "Set to false if an administrator creates the namespace.")
    controller: str = setting(
        Literal["Pod", "Job"],
        "Pod",
        "Controller that owns the pods; a Job replaces a pod lost with its node.",
    )
    git_image: str = setting(str, "alpine/git", "The image that clones the repositories of `mount_git_repo`.")

    supervisor_image: str = setting(
        str,
        "python:3-alpine",
        "The image of the supervisor, which starts processes in order and ends experiments; needs Python 3.",
    )

    # Not a setting: the prefix of object names in a shared namespace.
    shared_as: str = ""

    def object_name(self, name: str) -> str:
        """Return the name of an object of the experiment."""
        return f"{self.shared_as}-{name}" if self.shared_as else name

    @property
    def grace_seconds(self) -> int:
        """The grace period in whole seconds; 0 kills at once."""
        return math.ceil(self.grace)

    def faults(self) -> Iterator[tuple[str, str, str]]:
        if self.expose == "LoadBalancer" and not self.source_ranges:
            yield (
                "expose",
                "would open a LoadBalancer to the whole internet",
                "set who may reach it with symphony:sourceRanges, such as 203.0.113.0/24",
            )


def settings_of(context: Context) -> Settings:
    """Return the settings of the running program."""
    settings = cast("Settings", context.settings)
    return replace(
        settings, shared_as="" if settings.create_namespace else physical_name(context.stack, label=True)
    )
