"""The resource ImageResource and its dynamic provider, which builds, pushes and removes images.

The state of every user contains the module path and class name of the provider: never move or rename them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pulumi
from pulumi.dynamic import CheckResult, CreateResult, DiffResult, ReadResult, UpdateResult

from symphony.errors import SymphonyError
from symphony_docker import builder, context, failures, image_references, image_registry
from symphony_docker.engine import IDENTITY_LABEL, Engine
from symphony_docker.progress import Report, report
from symphony_dynamic.provider import DynamicProvider, DynamicResource, is_same, without

# The input that allows requests to the registry: set in an `up`, not in a preview.
MAY_ASK_REGISTRY = "asks_registry"
# An input that only an `up` sets: why the image must be built again. Pulumi shows it beside the change.
REASON = "why"
MISSING = "no longer in the registry"
# The input with the image that an earlier run pushed, `repository@sha256:...`; it is built again only if the
# registry no longer has it.
PINNED = "pinned"
# The inputs that determine the image; the path of the context does not.
_IDENTITY = ("repository", "tag", "identity")
# The lines of a failed step in an error; --debug shows all.
_LINES = 2
_DEBUG = "SYMPHONY_DEBUG"
Props = dict[str, Any]


class ImageProvider(DynamicProvider):
    """The dynamic provider of ImageResource."""

    def check(self, olds: Props, news: Props) -> CheckResult:
        inputs = without(news, MAY_ASK_REGISTRY, REASON, "image")
        if news.get(MAY_ASK_REGISTRY) and is_same(olds, inputs, _IDENTITY) and _is_missing(inputs):
            inputs[REASON] = MISSING
        return CheckResult(inputs, [])

    def diff(self, _id: str, olds: Props, news: Props) -> DiffResult:
        return DiffResult(_needs_build(olds, news) or _is_retained(olds) != _is_retained(news))

    def create(self, props: Props) -> CreateResult:
        return CreateResult(reference_of(props), _build_and_push(props))

    def read(self, id_: str, props: Props) -> ReadResult:
        return ReadResult(id_, props)

    def update(self, _id: str, olds: Props, news: Props) -> UpdateResult:
        if not _needs_build(olds, news):
            return UpdateResult({**olds, **news})
        outputs = _build_and_push(news)
        if reference_of(olds) != reference_of(outputs):
            _release(olds)
        return UpdateResult(outputs)

    def delete(self, _id: str, props: Props) -> None:
        _release(props)
        if not _is_retained(props) and (digest := str(props.get("digest") or "")):
            image_registry.delete(str(props["repository"]), str(props["tag"]), digest)


TYPE = "pulumi-python:dynamic/symphony_docker:Image"
PROVIDER = ImageProvider.state_text()


class ImageResource(DynamicResource):
    """An image that a Docker engine builds and pushes.

    image: the output `repository@sha256:...`, which pods run.
    """

    TYPE, PROVIDER = TYPE, PROVIDER
    image: pulumi.Output[str]

    def __init__(
        self, resource_name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(resource_name, {**inputs, "image": None}, opts)


def reference_of(props: Mapping[str, Any]) -> str:
    """Return the name of the image, with its tag."""
    return f"{props['repository']}:{props['tag']}"


def _is_retained(props: Mapping[str, Any]) -> bool:
    """Return whether the image stays in the registry when the stack is deleted."""
    return bool(props.get("retain_on_delete", True))


def _needs_build(olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
    """Return whether the declared image is not the one in the state."""
    is_same_pin = news.get(PINNED) in (None, olds.get("image"))
    return not (is_same(olds, news, _IDENTITY) and REASON not in news and is_same_pin)


def _is_missing(props: Mapping[str, Any]) -> bool:
    repository, reference = str(props["repository"]), str(props["tag"])
    if pinned := props.get(PINNED):
        repository, _, reference = str(pinned).partition("@")
    with suppress(SymphonyError):
        return not image_registry.has(repository, reference)
    # The registry does not answer: processes that need no new image start without it.
    return False


def _build_and_push(props: Props) -> Props:
    """Build the image unless the engine has it, push it, and return the outputs.

    A pinned image that the registry has is neither built nor pushed.
    """
    name, reference = str(props["name"]), reference_of(props)
    if (pinned := str(props.get(PINNED) or "")) and not _is_missing(props):
        facts = {"image": pinned, "digest": pinned.partition("@")[2], "size": 0, "built": time.time()}
        return {**without(props, REASON), **facts}
    engine = Engine()

    def report_progress(what: str, done: int = 0, total: int = 0) -> None:
        report(Report(name, what, done, total))

    identity, repository, tag = str(props["identity"]), str(props["repository"]), str(props["tag"])
    with image_references.lock(identity, reference):
        if "," in str(props.get("platform") or ""):
            # The engine cannot store an image for several platforms: the build pushes it.
            digest = _build(engine, props, reference, report_progress)
        else:
            _find_or_build(engine, props, reference, report_progress)
            report_progress("pushing")
            digest = engine.push(repository, tag, report_progress)
        image_references.add(reference, str(props["owner"]))
    existing = engine.find(reference)
    return {
        **without(props, REASON),
        "image": f"{repository}@{digest}",
        "digest": digest,
        "size": existing.size if existing else 0,
        "built": time.time(),
    }


def _find_or_build(engine: Engine, props: Props, reference: str, report_progress: Any) -> None:
    """Make the image available in the engine: find it, tag an equal one of another stack, or build it."""
    identity = str(props["identity"])
    existing = engine.find(reference)
    if existing is not None and existing.labels.get(IDENTITY_LABEL) == identity:
        return
    if equal_images := engine.list_images(identity=identity):
        engine.tag(equal_images[0].id, str(props["repository"]), str(props["tag"]))
        return
    report_progress("reading the context")
    _build(engine, props, reference, report_progress)


def _build(engine: Engine, props: Props, reference: str, report_progress: Any) -> str:
    """Build the image and return its id; one for several platforms is pushed too, and its digest returned."""
    source = context.source_of(props)
    # The plan has searched these very files for secrets, as the equal identity shows below.
    read = context.read(source, look_for_secrets=False)
    arguments: dict[str, str] = dict(props.get("build_args") or {})
    target, platform = str(props.get("target") or ""), str(props.get("platform") or "")
    parts = context.parts(read, arguments, target, platform)
    if read.problems or context.identity(parts) != props["identity"]:
        raise SymphonyError(
            "files of the image have changed since the plan",
            where=source.context,
            remedy="Run the command again",
        )
    labels = {IDENTITY_LABEL: str(props["identity"])}
    secrets: dict[str, str] = dict(props.get("secrets") or {})
    try:
        build = builder.Build(read, reference, arguments, target, platform, secrets, labels)
        return builder.build(build, engine.address, report_progress)
    except failures.BuildError as error:
        if not os.environ.get(_DEBUG):
            error.details = error.details[-_LINES:]
        raise


def _release(props: Mapping[str, Any]) -> None:
    """Remove the name of an image that no stack uses, unless a container uses the image."""
    reference = reference_of(props)
    if not image_references.drop(reference, str(props.get("owner") or "")):
        return
    # An image that could not be removed is still listed by `symphony images`.
    with suppress(SymphonyError):
        why_kept = Engine().remove(reference)
        if not why_kept:
            image_references.forget(reference)
