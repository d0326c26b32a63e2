"""Finds images that no machine of the cluster can run."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence

from symphony.backends.kubernetes.api.client import Client, Refused
from symphony.backends.kubernetes.api.fields import listing, text
from symphony.plan.plan import PlannedImage
from symphony.plan.problems import Problem

_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


def check(client: Client, images: Sequence[PlannedImage]) -> Iterator[Problem]:
    """Yield the images for another architecture: their pods would fail with `exec format error`."""
    if not images or not (architectures := _of_nodes(client)):
        return
    for image in images:
        # A platform without a slash is reported elsewhere.
        platforms = (image.platform or f"linux/{_own()}").split(",")
        wanted = {each.partition("/")[2].partition("/")[0] for each in platforms} - {""}
        if wanted and not wanted & architectures:
            nodes = ", ".join(sorted(architectures))
            remedy = f'set platform="linux/{min(architectures)}"'
            yield Problem(
                f"image {image.name} is for {', '.join(sorted(wanted))}, the cluster's machines are {nodes}",
                remedy,
                (image.where,),
            )


def _own() -> str:
    """Return the architecture of this machine, and of its Docker engine."""
    machine = platform.machine().lower()
    return _NAMES.get(machine, machine)


def _of_nodes(client: Client) -> set[str]:
    """Return the architectures of the cluster's nodes; none where the user may not list them."""
    try:
        nodes = listing(client.get("/api/v1/nodes"), "items")
    except Refused:
        return set()
    return {text(each, "status", "nodeInfo", "architecture") for each in nodes} - {""}
