"""Engine: a Docker engine, which tags, pushes, lists and removes images; `builder` builds them.

The package docker is loaded with the first call.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from symphony.errors import SymphonyError, UserError
from symphony_docker import failures

# Label of the images that symphony builds: the digest of their content.
IDENTITY_LABEL = "symphony.identity"
CALL_SECONDS = 60
# The states of a layer before anything happens to it, and of one that the registry has.
_BEFORE = ("Preparing", "Waiting")
_ENDED = ("Pushed", "Layer already exists", "Mounted from")
Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class LocalImage:
    """Image of a Docker engine; created in seconds since 1970, size in bytes."""

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
        self.place = str(
            os.environ.get("DOCKER_HOST")
            or (self._context and self._context.Host)
            or "unix:///var/run/docker.sock"
        )

    @cached_property
    def api(self) -> Any:
        """Return the client of an engine that has answered.

        Raises:
            SymphonyError: It does not answer, or $DOCKER_CONTEXT names no context.
        """
        import docker.api
        import docker.errors
        import docker.utils

        name = os.environ.get("DOCKER_CONTEXT", "default")
        if self._context is None and name != "default" and not os.environ.get("DOCKER_HOST"):
            # The package docker looks for contexts beside this file.
            remedy = "`docker context ls` lists the contexts; ~/.docker/config.json must exist, {} is enough"
            raise UserError(f"Docker has no context {name}", where="DOCKER_CONTEXT", remedy=remedy)
        make: Any = docker.api.APIClient
        try:
            options: Any = docker.utils.kwargs_from_env()
            if self._context is not None:
                options |= {"base_url": self.place, "tls": self._context.TLSConfig or False}
            return make(**options, timeout=CALL_SECONDS, version="auto")
        except docker.errors.TLSParameterError as error:
            raise UserError(f"Docker's TLS settings are wrong: {error}", where="DOCKER_CERT_PATH") from error
        except Exception as error:
            # Many errors mean this: no socket, no permission, no server, a server of another kind.
            raise failures.no_engine(self.place, _reason(error)) from error

    def facts(self) -> Mapping[str, Any]:
        """Return the facts that the engine reports about itself: Version, Arch and more."""
        with failures.in_one_line("its version", self.place):
            return self.api.version()

    def tag(self, reference: str, repository: str, tag: str) -> None:
        """Give an image another name."""
        with failures.in_one_line(f"the tag {repository}:{tag}", self.place):
            self.api.tag(reference, repository, tag)

    def push(self, repository: str, tag: str, tell: Tell | None = None) -> str:
        """Push an image and return its digest, sha256:...; known layers are not sent again."""
        with failures.in_one_line("the push", self.place):
            layers = _Layers()
            digest = ""
            for event in self.api.push(repository, tag=tag, stream=True, decode=True):
                if "error" in event:
                    raise failures.of_push(str(event["error"]), repository)
                if layers.note(event) and tell:
                    tell(f"pushing, {layers}", *layers.sizes)
                aux: Mapping[str, Any] = event.get("aux") or {}
                digest = str(aux.get("Digest") or digest)
        if not digest:
            raise SymphonyError(
                "the push returned no digest", where=f"{repository}:{tag}", remedy="Run it again"
            )
        return digest

    def find(self, reference: str) -> LocalImage | None:
        """Return the image of a name, tag or id; None if this engine has none."""
        import docker.errors

        with failures.in_one_line("an inspection", self.place):
            try:
                facts = self.api.inspect_image(reference)
            except docker.errors.NotFound:
                return None
        config: Mapping[str, Any] = facts.get("Config") or {}
        labels: Mapping[str, str] = config.get("Labels") or {}
        created = time.mktime(time.strptime(str(facts["Created"])[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        tags, digests = facts.get("RepoTags") or (), facts.get("RepoDigests") or ()
        return LocalImage(
            facts["Id"], tuple(tags), tuple(digests), labels, int(facts.get("Size") or 0), created
        )

    def list_images(self, *, ours: bool = False, identity: str = "") -> list[LocalImage]:
        """Return the images of this engine; ours: those that symphony built; identity: of this content."""
        label = f"{IDENTITY_LABEL}={identity}" if identity else IDENTITY_LABEL
        with failures.in_one_line("the list of images", self.place):
            every = self.api.images(filters={"label": [label]} if ours or identity else None)
        return [
            LocalImage(
                each["Id"],
                tuple(name for name in each.get("RepoTags") or () if name != "<none>:<none>"),
                tuple(each.get("RepoDigests") or ()),
                each.get("Labels") or {},
                int(each.get("Size") or 0),
                float(each.get("Created") or 0),
            )
            for each in every
        ]

    def remove(self, reference: str, *, force: bool = False) -> str:
        """Remove a name, and with the last name the image; return the reason if the image was kept.

        An image that a container uses stays, unless force is given.
        """
        import docker.errors

        with failures.in_one_line("the removal", self.place):
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
        with failures.in_one_line("the clean-up", self.place):
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
        """Record an event, and return whether it reports the progress of a layer."""
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
        # Docker names all layers before it sends one.
        return status not in _BEFORE

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the sent bytes, and the bytes of all layers whose size is known."""
        return sum(done for done, _ in self._sizes.values()), sum(all_ for _, all_ in self._sizes.values())

    def __str__(self) -> str:
        return f"{sum(self._ended.values())} of {len(self._ended)} layers"


def _context() -> Any:
    """Return the context of Docker's settings that names another engine than the default one."""
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
    """Return every name with its image; an image without a name by its id."""
    return [(name, each) for each in images for name in each.references or (each.id,)]
