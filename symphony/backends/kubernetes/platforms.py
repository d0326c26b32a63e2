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
    """Yield the images for another processor: a pod of one would fail with `exec format error`."""
    if not images or not (there := _of_nodes(client)):
        return
    for image in images:
        # One without a slash is a problem of its own.
        platforms = (image.platform or f"linux/{_own()}").split(",")
        wanted = {each.partition("/")[2].partition("/")[0] for each in platforms} - {""}
        if wanted and not wanted & there:
            nodes = ", ".join(sorted(there))
            remedy = f'set platform="linux/{min(there)}"'
            yield Problem(
                f"image {image.name} is for {', '.join(sorted(wanted))}, the cluster's machines are {nodes}",
                remedy,
                (image.where,),
            )


def _own() -> str:
    """Return the processor of this machine, which is that of its Docker engine."""
    machine = platform.machine().lower()
    return _NAMES.get(machine, machine)


def _of_nodes(client: Client) -> set[str]:
    """Return the processors of the cluster's machines; none where the user may not look."""
    try:
        nodes = listing(client.get("/api/v1/nodes"), "items")
    except Refused:
        return set()
    return {text(each, "status", "nodeInfo", "architecture") for each in nodes} - {""}
