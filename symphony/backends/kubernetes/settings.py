"""The settings of a stack on Kubernetes."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from symphony.backends import stack_settings
from symphony.backends.expand import Context
from symphony.backends.stack_settings import FLAG, TEXT, TEXTS, SettingType, StackSettings, one_of, setting
from symphony.plan.names import launched_name


def _ranges(text: str) -> tuple[str, ...]:
    """As Kubernetes wants them, with the lengths of their prefixes. ValueError: one is none."""
    return tuple(str(ipaddress.ip_network(each, strict=False)) for each in stack_settings.texts(text))


@dataclass(frozen=True, kw_only=True)
class Settings(StackSettings):
    """What the configuration of a stack says to this backend."""

    cluster: str | None = setting(
        TEXT,
        None,
        "The stack whose GkeCluster it runs on: STACK of this project, or PROJECT/STACK.",
        otherwise="where the kubeconfig leads",
    )
    prices: str | None = setting(
        TEXT,
        None,
        "The file whose prices `symphony plan` counts with.",
        otherwise="Google's list prices",
    )
    image: str | None = setting(TEXT, None, "The image of processes that set none.")
    expose: str = setting(
        one_of("ClusterIP", "NodePort", "LoadBalancer"),
        "ClusterIP",
        "How the services of `exposes` are reached: a ClusterIP is forwarded by `symphony visit`, a NodePort"
        " is a port that the cluster chooses, a LoadBalancer needs symphony:sourceRanges.",
    )
    source_ranges: tuple[str, ...] = setting(
        SettingType("a list: 203.0.113.0/24", _ranges), (), "Who may reach a LoadBalancer."
    )
    pod_security: str = setting(
        one_of("baseline", "restricted", "privileged"),
        "baseline",
        "The Pod Security level of the namespace; host paths need privileged. An existing one keeps its own.",
    )
    pull_secrets: tuple[str, ...] = setting(
        TEXTS,
        (),
        "The Secrets with which images are pulled; the namespace that holds them you create yourself.",
    )
    create_namespace: bool = setting(FLAG, True, "false where an administrator has created the namespace.")
    controller: str = setting(
        one_of("Pod", "Job"),
        "Pod",
        "What makes the pods: a Job makes another one for one that was lost with its machine.",
    )
    git_image: str = setting(TEXT, "alpine/git", "The image that clones what `mount_git_repo` names.")

    # Not a setting: what names of objects begin with where experiments may share the namespace.
    shared_as: str = ""

    def named(self, name: str) -> str:
        """What an object of the experiment is called."""
        return f"{self.shared_as}-{name}" if self.shared_as else name

    @property
    def grace_seconds(self) -> int:
        """Kubernetes knows whole seconds only, and none means not to ask."""
        return math.ceil(self.grace)

    def clashes(self) -> Iterator[tuple[str, str, str]]:
        if self.expose == "LoadBalancer" and not self.source_ranges:
            yield (
                "expose",
                "would open a LoadBalancer to the whole internet",
                "set who may reach it with symphony:sourceRanges, such as 203.0.113.0/24",
            )


def of(context: Context) -> Settings:
    """Those of the running program, which are of this backend."""
    settings = cast("Settings", context.settings)
    return replace(
        settings, shared_as="" if settings.create_namespace else launched_name(context.stack, label=True)
    )
