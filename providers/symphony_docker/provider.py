"""The resource ImageResource and its dynamic provider, which builds, pushes and removes images.

Module path and class name of the provider lie in the state of every user: never move or rename them.
"""

from __future__ import annotations

import base64
import os
import pickle
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
from symphony_dynamic.provider import DynamicProvider, is_same, without

# The input that allows asking the registry: set in an `up`, not in a preview.
ASKS = "asks_registry"
# Shown in the plan as an input that changes, so that a plain `pulumi preview` says why.
REASON = "why"
GONE = "no longer in the registry"
# The input with the image that an earlier run pushed, `repository@sha256:...`, which is run as it is.
PINNED = "pinned"
# The path of the context on this machine does not change the image.
_IDENTITY = ("repository", "tag", "identity")
# Lines of a failed step in an error; --debug shows all.
_LINES = 2
_DEBUG = "SYMPHONY_DEBUG"
Props = dict[str, Any]


class ImageProvider(DynamicProvider):
    """CRUD of an Image resource."""

    def check(self, _olds: Props, news: Props) -> CheckResult:
        own = without(news, ASKS, REASON, "image")
        if news.get(ASKS) and is_same(_olds, own, _IDENTITY) and _is_gone(own):
            own[REASON] = GONE
        return CheckResult(own, [])

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        return DiffResult(_is_another(_olds, _news) or _keeps(_olds) != _keeps(_news))

    def create(self, props: Props) -> CreateResult:
        return CreateResult(reference_of(props), _made(props))

    def read(self, id_: str, props: Props) -> ReadResult:
        return ReadResult(id_, props)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        if not _is_another(_olds, _news):
            return UpdateResult({**_olds, **_news})
        made = _made(_news)
        if reference_of(_olds) != reference_of(made):
            _release(_olds)
        return UpdateResult(made)

    def delete(self, _id: str, _props: Props) -> None:
        _release(_props)
        if not _keeps(_props) and (digest := str(_props.get("digest") or "")):
            image_registry.delete(str(_props["repository"]), str(_props["tag"]), digest)


TYPE = "pulumi-python:dynamic/symphony_docker:Image"
# Protocol 4, by reference, no attributes: these bytes lie in the state of every user and must never change.
PROVIDER = base64.b64encode(pickle.dumps(ImageProvider(), protocol=4)).decode()


class ImageResource(pulumi.CustomResource):
    """One image: built by a Docker engine and pushed to its repository.

    image: an output, `repository@sha256:...`, which is what pods run.
    """

    image: pulumi.Output[str]

    def __init__(
        self, resource_name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(TYPE, resource_name, {**inputs, "image": None, "__provider": PROVIDER}, opts)


def reference_of(props: Mapping[str, Any]) -> str:
    """Return the name of the image, with its tag."""
    return f"{props['repository']}:{props['tag']}"


def _keeps(props: Mapping[str, Any]) -> bool:
    """Return whether the image stays in the registry when the stack is deleted."""
    return bool(props.get("retain_on_delete", True))


def _is_another(olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
    """Return whether the image of the state is not the one that is wanted."""
    is_pinned = news.get(PINNED) in (None, olds.get("image"))
    return not (is_same(olds, news, _IDENTITY) and REASON not in news and is_pinned)


def _is_gone(props: Mapping[str, Any]) -> bool:
    repository, reference = str(props["repository"]), str(props["tag"])
    if pinned := props.get(PINNED):
        repository, _, reference = str(pinned).partition("@")
    with suppress(SymphonyError):
        return not image_registry.has(repository, reference)
    # A registry that does not answer may have it: processes that need no new image start without it.
    return False


def _made(props: Props) -> Props:
    """Build and push the image, if that is not done yet, and return its outputs."""
    name, reference = str(props["name"]), reference_of(props)
    if (pinned := str(props.get(PINNED) or "")) and not _is_gone(props):
        facts = {"image": pinned, "digest": pinned.partition("@")[2], "size": 0, "built": time.time()}
        return {**without(props, REASON), **facts}
    engine = Engine()

    def tell(what: str, done: int = 0, total: int = 0) -> None:
        report(Report(name, what, done, total))

    identity, repository, tag = str(props["identity"]), str(props["repository"]), str(props["tag"])
    with image_references.lock(identity, reference):
        if "," in str(props.get("platform") or ""):
            # An engine's store holds no image of several platforms: the build itself pushes it.
            digest = _build(engine, props, reference, tell)
        else:
            _find_or_build(engine, props, reference, tell)
            tell("pushing")
            digest = engine.push(repository, tag, tell)
        image_references.add(reference, str(props["owner"]))
    existing = engine.find(reference)
    return {
        **without(props, REASON),
        "image": f"{repository}@{digest}",
        "digest": digest,
        "size": existing.size if existing else 0,
        "built": time.time(),
    }


def _find_or_build(engine: Engine, props: Props, reference: str, tell: Any) -> None:
    """Give the engine the image under this name: it is there, is another stack's, or is built."""
    identity = str(props["identity"])
    existing = engine.find(reference)
    if existing is not None and existing.labels.get(IDENTITY_LABEL) == identity:
        return
    if same := engine.list_images(identity=identity):
        engine.tag(same[0].id, str(props["repository"]), str(props["tag"]))
        return
    tell("reading the context")
    _build(engine, props, reference, tell)


def _build(engine: Engine, props: Props, reference: str, tell: Any) -> str:
    """Build the image and return its id, or the digest of one for several platforms, which is pushed."""
    source = context.source_of(props)
    # The plan has looked for secrets, and the identity says that the files are the same.
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
        return builder.build(build, engine.place, tell)
    except failures.BuildError as error:
        if not os.environ.get(_DEBUG):
            error.details = error.details[-_LINES:]
        raise


def _release(props: Mapping[str, Any]) -> None:
    """Remove the name of an image that no stack uses; an image that a container uses stays."""
    reference = reference_of(props)
    if not image_references.drop(reference, str(props.get("owner") or "")):
        return
    # An image that stays, or whose engine does not answer, is still listed by `symphony images`.
    with suppress(SymphonyError):
        if not Engine().remove(reference):
            image_references.forget(reference)
