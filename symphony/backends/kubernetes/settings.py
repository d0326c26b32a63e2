"""The settings of a stack for this backend, read from its configuration and checked."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable
from dataclasses import dataclass

from symphony.errors import UserError
from symphony.plan.names import launched_name, nearest

EXPOSE = ("ClusterIP", "NodePort", "LoadBalancer")
CONTROLLERS = ("Pod", "Job", "JobSet")
POD_SECURITY = ("baseline", "restricted", "privileged")
DEFAULT_GRACE = 5
# Clones what mount_git_repo names; a registry of one's own is said with symphony:gitImage.
GIT_IMAGE = "alpine/git"


@dataclass(frozen=True)
class Settings:
    """What the configuration of a stack says.

    expose:           the type of the Services of what a process exposes.
    source_ranges:    who may reach a LoadBalancer; one that everybody may reach has to be asked for.
    pod_security:     the Pod Security level of the namespace; host paths need "privileged".
    create_namespace: False where an administrator made the namespace and gave the user a Role in it.
    shared_as:        what names of objects begin with in such a namespace, for experiments may share it.
    controller:       what makes the pods: a Job makes another for one that was lost with its machine.
    grace:            seconds between asking a process to end and ending it.
    """

    image: str | None = None
    expose: str = "ClusterIP"
    source_ranges: tuple[str, ...] = ()
    pod_security: str = "baseline"
    pull_secrets: tuple[str, ...] = ()
    create_namespace: bool = True
    shared_as: str = ""
    controller: str = "Pod"
    grace: int = DEFAULT_GRACE
    git_image: str = GIT_IMAGE

    def named(self, name: str) -> str:
        """What an object of the experiment is called."""
        return f"{self.shared_as}-{name}" if self.shared_as else name


def read(setting: Callable[[str], str | None], stack: str = "") -> Settings:
    """The settings of this stack. UserError: one has a value that means nothing."""
    expose = _word(setting, "expose", EXPOSE)
    ranges = tuple(map(_range, _list(setting("sourceRanges"))))
    if expose == "LoadBalancer" and not ranges:
        raise UserError(
            "a LoadBalancer would be open to the whole internet",
            where="symphony:expose",
            remedy="Say who may reach it with symphony:sourceRanges, such as 203.0.113.0/24",
        )
    create = _word(setting, "createNamespace", ("true", "false")) == "true"
    return Settings(
        image=setting("image") or None,
        expose=expose,
        source_ranges=ranges if expose == "LoadBalancer" else (),
        pod_security=_word(setting, "podSecurity", POD_SECURITY),
        pull_secrets=_list(setting("pullSecrets")),
        create_namespace=create,
        shared_as="" if create else launched_name(stack),
        controller=_word(setting, "controller", CONTROLLERS),
        grace=_grace(setting("grace")),
        git_image=setting("gitImage") or GIT_IMAGE,
    )


def _word(setting: Callable[[str], str | None], name: str, words: tuple[str, ...]) -> str:
    said = setting(name)
    if not said:
        return words[0]
    found = next((word for word in words if word.lower() == said.lower()), None)
    if found is None:
        near = nearest(said, words)
        remedy = f"Did you mean {near}?" if near else f"It is one of: {', '.join(words)}"
        raise UserError(f'"{said}" means nothing', where=f"symphony:{name}", remedy=remedy.rstrip("."))
    return found


def _list(said: str | None) -> tuple[str, ...]:
    """`a, b` or `["a", "b"]`, as `pulumi config set` and `--path` write them."""
    text = (said or "").strip().removeprefix("[").removesuffix("]")
    return tuple(part.strip().strip("\"'") for part in text.split(",") if part.strip())


def _range(said: str) -> str:
    """As Kubernetes wants it, with the length of its prefix."""
    try:
        return str(ipaddress.ip_network(said, strict=False))
    except ValueError:
        raise UserError(
            f'"{said}" is no range of addresses',
            where="symphony:sourceRanges",
            remedy="Write one as 203.0.113.0/24",
        ) from None


def _grace(said: str | None) -> int:
    try:
        grace = float(said) if said else DEFAULT_GRACE
    except ValueError:
        grace = -1.0
    if not 0 <= grace <= 600:
        raise UserError(f"must be 0-600 seconds, got {said}", where="symphony:grace")
    # Kubernetes knows whole seconds only, and none means not to ask.
    return math.ceil(grace)
