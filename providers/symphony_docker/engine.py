"""Engine: tags, pushes, lists and removes the images of a Docker engine; `builder` builds them.

The docker package is imported when an Engine is made or called, not with this module.
"""

from __future__ import annotations

import calendar
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from symphony.errors import SymphonyError, UserError
from symphony_docker import failures
from symphony_docker.progress import OnProgress

# Label of the images that symphony builds: the digest of their content.
IDENTITY_LABEL = "symphony.identity"
CALL_SECONDS = 60
# The states of a layer before its push, and after it.
_NOT_STARTED = ("Preparing", "Waiting")
_ENDED = ("Pushed", "Layer already exists", "Mounted from")


@dataclass(frozen=True)
class LocalImage:
    """An image of a Docker engine; created: seconds since 1970, size: bytes."""

    id: str
    references: tuple[str, ...]
    digests: tuple[str, ...]
    labels: Mapping[str, str]
    size: int
    created: float


class Engine:
    """One Docker engine: that of $DOCKER_HOST, of $DOCKER_CONTEXT, or of Docker's current context."""

    def __init__(self) -> None:
        self._context = None if os.environ.get("DOCKER_HOST") else _context()
        self.address = str(
            os.environ.get("DOCKER_HOST")
            or (self._context and self._context.Host)
            or "unix:///var/run/docker.sock"
        )

    @cached_property
    def api(self) -> Any:
        """Return the client of the engine.

        Raises:
            SymphonyError: The engine does not answer, or $DOCKER_CONTEXT names no context.
        """
        import docker.api
        import docker.errors
        import docker.utils
        from docker.utils.config import find_config_file

        name = os.environ.get("DOCKER_CONTEXT", "default")
        if self._context is None and name != "default" and not os.environ.get("DOCKER_HOST"):
            what, remedy = f"Docker has no context {name}", "`docker context ls` lists the contexts"
            if find_config_file() is None:
                # The docker package reads contexts only if this file exists.
                what, remedy = "Docker's contexts need its config.json", "Write {} to ~/.docker/config.json"
            raise UserError(what, where="DOCKER_CONTEXT", remedy=remedy)
        make: Any = docker.api.APIClient
        try:
            options: Any = docker.utils.kwargs_from_env()
            if self._context is not None:
                options |= {"base_url": self.address, "tls": self._context.TLSConfig or False}
            return make(**options, timeout=CALL_SECONDS, version="auto")
        except docker.errors.TLSParameterError as error:
            remedy = "Put ca.pem, cert.pem and key.pem into that folder, or unset it and DOCKER_TLS_VERIFY"
            what = f"Docker's TLS settings are wrong: {error}"
            raise UserError(what, where="DOCKER_CERT_PATH", remedy=remedy) from error
        except Exception as error:
            # Such as no socket, no permission, or another kind of server.
            raise failures.no_engine_error(self.address, _reason(error)) from error

    def facts(self) -> Mapping[str, Any]:
        """Return what the engine reports about itself: Version, Arch and more."""
        with failures.engine_call("its version", self.address):
            return self.api.version()

    def tag(self, reference: str, repository: str, tag: str) -> None:
        """Give an image another name."""
        with failures.engine_call(f"the tag {repository}:{tag}", self.address):
            self.api.tag(reference, repository, tag)

    def push(self, repository: str, tag: str, report: OnProgress | None = None) -> str:
        """Push an image and return its digest, sha256:...; known layers are not sent again."""
        with failures.engine_call("the push", self.address):
            layers = _Layers()
            digest = ""
            for event in self.api.push(repository, tag=tag, stream=True, decode=True):
                if "error" in event:
                    raise failures.push_error(str(event["error"]), repository)
                if layers.note(event) and report:
                    report(f"pushing, {layers}", *layers.sizes)
                aux: Mapping[str, Any] = event.get("aux") or {}
                digest = str(aux.get("Digest") or digest)
        if not digest:
            raise SymphonyError(
                "the push returned no digest", where=f"{repository}:{tag}", remedy="Run the command again"
            )
        return digest

    def find(self, reference: str) -> LocalImage | None:
        """Return the image with a name, tag or id; None if the engine has none."""
        import docker.errors

        with failures.engine_call("an inspection", self.address):
            try:
                facts = self.api.inspect_image(reference)
            except docker.errors.NotFound:
                return None
        config: Mapping[str, Any] = facts.get("Config") or {}
        labels: Mapping[str, str] = config.get("Labels") or {}
        created = float(calendar.timegm(time.strptime(str(facts["Created"])[:19], "%Y-%m-%dT%H:%M:%S")))
        tags, digests = facts.get("RepoTags") or (), facts.get("RepoDigests") or ()
        return LocalImage(
            facts["Id"], tuple(tags), tuple(digests), labels, int(facts.get("Size") or 0), created
        )

    def list_images(self, *, own: bool = False, identity: str = "") -> list[LocalImage]:
        """Return the images of the engine; own: those that symphony built; identity: with this content."""
        label = f"{IDENTITY_LABEL}={identity}" if identity else IDENTITY_LABEL
        with failures.engine_call("the list of images", self.address):
            images = self.api.images(filters={"label": [label]} if own or identity else None)
        return [
            LocalImage(
                image["Id"],
                tuple(name for name in image.get("RepoTags") or () if name != "<none>:<none>"),
                tuple(image.get("RepoDigests") or ()),
                image.get("Labels") or {},
                int(image.get("Size") or 0),
                float(image.get("Created") or 0),
            )
            for image in images
        ]

    def remove(self, reference: str, *, force: bool = False) -> str:
        """Remove a name, and the image with its last name; return the reason if the image was kept.

        Without force, an image that a container uses is kept; with force, one that a running container uses.
        """
        import docker.errors

        with failures.engine_call("the removal", self.address):
            try:
                self.api.remove_image(reference, force=force)
            except docker.errors.NotFound:
                return ""
            except docker.errors.APIError as error:
                if error.response is not None and error.response.status_code == 409:
                    return "a container uses this image"
                raise
        return ""

    def prune(self, *, containers: bool = False, images: bool = False) -> None:
        """Remove the containers that have ended, and the images that have no name."""
        with failures.engine_call("the clean-up", self.address):
            if containers:
                self.api.prune_containers()
            if images:
                self.api.prune_images({"dangling": True})


class _Layers:
    """The layers of a push, with the bytes sent of each."""

    def __init__(self) -> None:
        self._ended: dict[str, bool] = {}
        self._sizes: dict[str, tuple[int, int]] = {}

    def note(self, event: Mapping[str, Any]) -> bool:
        """Record an event; return whether it reports progress of a layer."""
        layer, status = str(event.get("id") or ""), str(event.get("status") or "")
        if not layer or not status:
            return False
        self._ended[layer] = self._ended.get(layer, False) or status.startswith(_ENDED)
        detail: Mapping[str, Any] = event.get("progressDetail") or {}
        if detail.get("total"):
            self._sizes[layer] = (int(detail.get("current") or 0), int(detail["total"]))
        elif self._ended[layer] and layer in self._sizes:
            _, total = self._sizes[layer]
            self._sizes[layer] = (total, total)
        # Docker announces all layers before it sends one.
        return status not in _NOT_STARTED

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the sent bytes, and the bytes of all layers whose size is known."""
        return sum(done for done, _ in self._sizes.values()), sum(total for _, total in self._sizes.values())

    def __str__(self) -> str:
        return f"{sum(self._ended.values())} of {len(self._ended)} layers"


def _context() -> Any:
    """Return the context of Docker's settings, unless it is the default one."""
    with suppress(Exception):
        from docker.context import ContextAPI

        name = os.environ.get("DOCKER_CONTEXT")
        context: Any = ContextAPI.get_context(name) if name else ContextAPI.get_current_context()
        if context is not None and context.name != "default":
            return context
    return None


def _reason(error: BaseException) -> str:
    text = str(error)
    if "Permission denied" in text:
        return "you have no permission to use it"
    if "No such file" in text or "Connection refused" in text:
        return "it is not running"
    return text.rpartition(": ")[2].strip("()'\" ")[:120]


def names(images: Iterable[LocalImage]) -> Sequence[tuple[str, LocalImage]]:
    """Return every name with its image; an image without a name has its id."""
    return [(name, image) for image in images for name in image.references or (image.id,)]
