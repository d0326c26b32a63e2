"""Whether the cluster has a machine that can run an image that is built here."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence

from symphony.backends.kubernetes.api.client import Client, Refused
from symphony.backends.kubernetes.api.fields import listing, text
from symphony.plan.plan import PlannedImage
from symphony.plan.problems import Problem

_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


def check(client: Client, images: Sequence[PlannedImage]) -> Iterator[Problem]:
    """An image for another processor would be pushed, pulled, and fail with `exec format error`."""
    if not images or not (there := _of_nodes(client)):
        return
    for image in images:
        # One without a slash is a problem of its own.
        wanted = (image.platform or f"linux/{_own()}").partition("/")[2].partition("/")[0]
        if wanted and wanted not in there:
            nodes = ", ".join(sorted(there))
            remedy = f'set platform="linux/{min(there)}"'
            yield Problem(
                f"image {image.name} is for {wanted}, the cluster's machines are {nodes}",
                remedy,
                (image.where,),
            )


def _own() -> str:
    """The processor of this machine, which is that of its Docker engine."""
    machine = platform.machine().lower()
    return _NAMES.get(machine, machine)


def _of_nodes(client: Client) -> set[str]:
    """The processors of the cluster's machines; none where that is not ours to ask."""
    try:
        nodes = listing(client.get("/api/v1/nodes"), "items")
    except Refused:
        return set()
    return {text(each, "status", "nodeInfo", "architecture") for each in nodes} - {""}
