"""The Docker engine: builds, tags, pushes and removes images; each failure is one line.

Of the package docker only what speaks the engine's API is used; it is loaded with the first call.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

from symphony.errors import SymphonyError, UserError
from symphony_docker import failures
from symphony_docker.context import DOCKERFILE, Context, archive

# What an image of ours says of itself: what it was made of. Each label is a step of a build.
IDENTITY_LABEL = "symphony.identity"
CALL_SECONDS = 60
# Between two words of the engine: a step may say nothing for long.
BUILD_SECONDS = 3600
_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
# What Docker says of a layer before anything happens to it, and of one that is there.
_BEFORE = ("Preparing", "Waiting", "Pulling fs layer")
_ENDED = ("Pushed", "Layer already exists", "Mounted from", "Pull complete", "Already exists")
_KEPT_LINES = 2000
_STEP_LENGTH = 60
Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Build:
    """What a build makes and of what; labels: what the image says of itself."""

    context: Context
    reference: str
    dockerfile: str = "Dockerfile"
    build_args: Mapping[str, str] = field(default_factory=dict[str, str])
    target: str = ""
    platform: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class LocalImage:
    """An image that this machine has; created in seconds since 1970, size in bytes."""

    id: str
    references: tuple[str, ...]
    digests: tuple[str, ...]
    labels: Mapping[str, str]
    size: int
    created: float


class Builder(Protocol):
    """What builds images and pushes them; today a Docker engine."""

    def build(self, build: Build, tell: Tell, log: Callable[[str], None]) -> str: ...
    def push(self, repository: str, tag: str, tell: Tell) -> str: ...


def _nothing(what: str, done: int, total: int) -> None:
    del what, done, total


def _no_line(line: str) -> None:
    del line


class Engine:
    """One Docker engine: that of $DOCKER_HOST, else of Docker's current context."""

    def __init__(self) -> None:
        self.place = _place()

    @cached_property
    def api(self) -> Any:
        """The client, once the engine has answered. SymphonyError: it does not."""
        import docker.api
        import docker.errors
        import docker.utils

        make: Any = docker.api.APIClient
        try:
            given: Any = docker.utils.kwargs_from_env()
            client: Any = make(**{**_base(self.place), **given}, timeout=CALL_SECONDS, version="auto")
        except docker.errors.TLSParameterError as error:
            raise UserError(
                f"the TLS settings of Docker are wrong: {error}", where="DOCKER_CERT_PATH"
            ) from error
        except Exception as error:
            # It is of many kinds: no socket, no right, no server, a server that is none.
            raise failures.no_engine(self.place, _reason(error)) from error
        return client

    def facts(self) -> Mapping[str, Any]:
        """What the engine says of itself: Version, Arch and more."""
        with failures.in_one_line("its version", self.place):
            return self.api.version()

    def build(self, build: Build, tell: Tell = _nothing, log: Callable[[str], None] = _no_line) -> str:
        """Build and tag an image, and return its id; log is told every line of the output.

        UserError: a step failed. SymphonyError: the engine did. No container is left of it.
        """
        import docker.errors

        with failures.in_one_line("the build", self.place):
            make: Any = partial(self.api.build, decode=True, timeout=BUILD_SECONDS)
            try:
                # Only when it is read does the engine's answer raise what it refuses.
                stream = make(
                    fileobj=archive(build.context),
                    custom_context=True,
                    dockerfile=DOCKERFILE,
                    tag=build.reference or None,
                    buildargs=dict(build.build_args) or None,
                    target=build.target or None,
                    platform=build.platform or None,
                    labels=dict(build.labels) or None,
                    rm=True,
                    forcerm=True,
                )
                return _Steps(build.dockerfile, tell, log).follow(stream)
            except docker.errors.APIError as error:
                raise failures.of_build(str(error.explanation or error), "", (), build.dockerfile) from error

    def tag(self, reference: str, repository: str, tag: str) -> None:
        """Give an image another name."""
        with failures.in_one_line(f"the tag {repository}:{tag}", self.place):
            self.api.tag(reference, repository, tag)

    def push(self, repository: str, tag: str, tell: Tell = _nothing) -> str:
        """Push an image and return its digest, sha256:...; what the registry has is not sent again."""
        with failures.in_one_line("the push", self.place):
            layers = _Layers()
            digest = ""
            for event in self.api.push(repository, tag=tag, stream=True, decode=True):
                if "error" in event:
                    raise failures.of_push(str(event["error"]), repository)
                if layers.note(event):
                    tell(f"pushing, {layers}", *layers.sizes)
                digest = _aux(event, "Digest") or digest
        if not digest:
            raise SymphonyError(
                "the push returned no digest", where=f"{repository}:{tag}", remedy="Run it again"
            )
        return digest

    def find(self, reference: str) -> LocalImage | None:
        """The image of a name, tag or id; None when this machine has none."""
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
        """The images here; ours: only those that symphony built; identity: only those of this content."""
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
        """Take a name away, and the image with its last one; why it was kept, empty when it was not.

        An image that a container uses stays, unless it is forced.
        """
        import docker.errors

        with failures.in_one_line("the removal", self.place):
            try:
                self.api.remove_image(reference, force=force)
            except docker.errors.NotFound:
                return ""
            except docker.errors.APIError as error:
                if error.response is not None and error.response.status_code == 409:
                    return "a container uses it"
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
    """How far the layers are that a push sends, or that the pull of a base brings."""

    def __init__(self) -> None:
        self._ended: dict[str, bool] = {}
        self._sizes: dict[str, tuple[int, int]] = {}

    def note(self, event: Mapping[str, Any]) -> bool:
        """Whether an event tells something of a layer."""
        layer, status = str(event.get("id") or ""), str(event.get("status") or "")
        if not layer or not status or status.startswith("Pulling from"):
            return False
        self._ended[layer] = self._ended.get(layer, False) or status.startswith(_ENDED)
        detail: Mapping[str, Any] = event.get("progressDetail") or {}
        if detail.get("total"):
            self._sizes[layer] = (int(detail.get("current") or 0), int(detail["total"]))
        elif self._ended[layer] and layer in self._sizes:
            _, total = self._sizes[layer]
            self._sizes[layer] = (total, total)
        # Before it sends one Docker names them all.
        return status not in _BEFORE

    @property
    def sizes(self) -> tuple[int, int]:
        """In bytes: what went, and all that goes as far as it is known."""
        return sum(done for done, _ in self._sizes.values()), sum(all_ for _, all_ in self._sizes.values())

    def __str__(self) -> str:
        return f"{sum(self._ended.values())} of {len(self._ended)} layers"


def _aux(event: Mapping[str, Any], name: str) -> str:
    """What an event says beside its text."""
    aux: Mapping[str, Any] = event.get("aux") or {}
    return str(aux.get(name) or "")


class _Steps:
    """Follows what a build says."""

    def __init__(self, dockerfile: str, tell: Tell, log: Callable[[str], None]) -> None:
        self._dockerfile = dockerfile
        self._tell = tell
        self._log = log
        self._step = ""
        self._output: list[str] = []
        self._id = ""

    def follow(self, stream: Iterable[Mapping[str, Any]]) -> str:
        """The id of the image. UserError: a step failed."""
        pulled = _Layers()
        for event in stream:
            if "error" in event:
                raise failures.of_build(
                    str(event["error"]), self._step, [*filter(None, self._output)], self._dockerfile
                )
            if text := str(event.get("stream") or ""):
                self._say(text)
            if pulled.note(event):
                self._tell(f"pulling the base, {pulled}", *pulled.sizes)
            self._id = _aux(event, "ID") or self._id
        if not self._id:
            raise SymphonyError("the Docker engine ended the build without an image", remedy="Run it again")
        return self._id

    def _say(self, text: str) -> None:
        for line in _COLOUR.sub("", text).splitlines():
            self._log(line)
            if match := _STEP.fullmatch(line.strip()):
                self._step = match[3]
                self._output = []
                step = match[3] if len(match[3]) <= _STEP_LENGTH else f"{match[3][: _STEP_LENGTH - 1]}…"
                self._tell(f"step {match[1]}/{match[2]}: {step}", 0, 0)
            elif not line.startswith((" ---> ", "Removing intermediate container ", " ---> Running in ")):
                self._output = [*self._output, line.rstrip()][-_KEPT_LINES:]


def _place() -> str:
    """The address of the engine; Docker Desktop's is in the current context of Docker's own settings."""
    if chosen := os.environ.get("DOCKER_HOST"):
        return chosen
    with suppress(Exception):
        from docker.context import ContextAPI

        current: Any = ContextAPI.get_current_context()
        if current is not None and current.Host:
            return str(current.Host)
    return "unix:///var/run/docker.sock"


def _base(place: str) -> dict[str, str]:
    return {} if os.environ.get("DOCKER_HOST") else {"base_url": place.replace("unix:///", "unix://")}


def _reason(error: BaseException) -> str:
    text = str(error)
    if "Permission denied" in text:
        return "you have no permission to use it"
    if "No such file" in text or "Connection refused" in text:
        return "it is not running"
    return text.rpartition(": ")[2].strip("()'\" ")[:120]


def names(images: Iterable[LocalImage]) -> Sequence[tuple[str, LocalImage]]:
    """Every name with its image; one without a name by its id."""
    return [(name, each) for each in images for name in each.references or (each.id,)]
