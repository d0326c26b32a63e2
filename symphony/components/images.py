"""The images of an experiment: reads their content, finds their problems, registers their resources."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from symphony import run_request
from symphony.backends import registry as backends
from symphony.backends.expand import Context
from symphony.components.secret_env import secret_settings
from symphony.plan.code import CodeSets
from symphony.plan.plan import PlannedImage
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.shared import ImageSpec

if TYPE_CHECKING:
    from symphony_docker.provider import ImageResource

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_REPOSITORY = re.compile(
    r"([a-zA-Z0-9][-.a-zA-Z0-9]*(:\d+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
)
_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9_]+(/v\d+)?(,[a-z0-9]+/[a-z0-9_]+(/v\d+)?)*")
_SECRET_ID = re.compile(r"[A-Za-z0-9_][-.A-Za-z0-9_]*")
_SECRET = re.compile(
    r"(?i)(.*_)?(secret|token|passw(or)?d|passphrase|credentials?"
    r"|(api|access|private|secret|ssh|deploy)_?key)(_.*)?"
)
_DIGITS = 12


class _PlannedContent(NamedTuple):
    """An image with its problems, and the digests of its files."""

    image: PlannedImage
    problems: tuple[Problem, ...]
    files: Mapping[str, str]


class Images:
    """The images of a run of a program; each is planned once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._planned: dict[ImageSpec, _PlannedContent] = {}
        self._resources: dict[str, ImageResource] = {}

    def plan_image(self, spec: ImageSpec) -> _PlannedContent:
        """Return the planned image, its problems, and the digests of its files."""
        if spec not in self._planned:
            self._planned[spec] = _plan_image(spec, self._context)
        return self._planned[spec]

    def resource(self, image: PlannedImage) -> ImageResource:
        """Return the resource that builds and pushes an image; an `up` first looks in the registry."""
        from symphony_docker.provider import ImageResource

        if image.name not in self._resources:
            asks = {} if self._context.dry_run else {"asks_registry": True}
            self._resources[image.name] = ImageResource(image.name, {**image.inputs, **asks})
        return self._resources[image.name]

    def with_references(
        self, spec: ExperimentSpec
    ) -> tuple[ExperimentSpec, tuple[PlannedImage, ...], tuple[Problem, ...]]:
        """Return the experiment with references in place of images, the planned images, and problems."""
        images = list(dict.fromkeys(_declared_images(spec)))
        planned = {image: self.plan_image(image) for image in images}
        problems = (
            *_name_conflicts(images),
            *(problem for content in planned.values() for problem in content.problems),
        )
        names = {image: content.image.reference for image, content in planned.items()}
        return _with_names(spec, names), tuple(content.image for content in planned.values()), problems

    @property
    def files(self) -> CodeSets:
        """The files behind the digests of the images."""
        return {content.image.inputs["parts"]["files"]: content.files for content in self._planned.values()}


def _with_names(spec: ExperimentSpec, names: Mapping[ImageSpec, str]) -> ExperimentSpec:
    def with_name(owner: Any) -> Any:
        image = owner.image
        return dataclasses.replace(owner, image=names[image]) if isinstance(image, ImageSpec) else owner

    return spec.with_owners(with_name)


def named_images(spec: ExperimentSpec) -> ExperimentSpec:
    """Return the experiment with names in place of images, unread, for a backend that uses no images."""
    return _with_names(spec, {image: image.repository or image.name for image in _declared_images(spec)})


def _declared_images(spec: ExperimentSpec) -> Iterator[ImageSpec]:
    return (owner.image for _, owner in spec.owners() if isinstance(owner.image, ImageSpec))


def _name_conflicts(specs: list[ImageSpec]) -> Iterator[Problem]:
    first: dict[str, ImageSpec] = {}
    for spec in specs:
        if (other := first.setdefault(spec.name, spec)) is not spec:
            what = f"image {spec.name} is declared twice, with different settings"
            yield Problem(what, "give them different names", (other.where, spec.where))


def _plan_image(spec: ImageSpec, context: Context) -> _PlannedContent:
    from symphony_docker import context as build_context

    registry = context.settings.registry or backends.get(context.backend).expander.image_registry(context)
    repository = spec.repository or (f"{registry.rstrip('/')}/{spec.name}" if registry else "")
    problems = [
        Problem(f"image {spec.name} {what}", remedy, (spec.where,))
        for what, remedy in _faults(spec, repository, context.folder)
    ]
    folder = str((context.folder / Path(spec.context).expanduser()).resolve())
    source = build_context.Source(folder, spec.dockerfile, spec.dockerfile_text, spec.include, spec.allow)
    content = build_context.read(source)
    problems += [
        Problem(f"image {spec.name}: {what}", remedy, (spec.where,)) for what, remedy in content.problems
    ]
    parts = build_context.parts(content, spec.build_args, spec.target or "", spec.platform or "")
    identity = build_context.identity(parts)
    tag = f"{context.physical_name[:100]}-{identity[:_DIGITS]}"
    secrets = {
        name: str((context.folder / Path(file).expanduser()).resolve()) for name, file in spec.secrets.items()
    }
    inputs: dict[str, Any] = {
        "name": spec.name,
        "repository": repository,
        "tag": tag,
        "identity": identity,
        "parts": parts,
        "context": folder,
        "dockerfile": spec.dockerfile,
        "dockerfile_text": spec.dockerfile_text,
        "include": list(spec.include),
        "allow": list(spec.allow),
        "build_args": dict(spec.build_args),
        "secrets": secrets,
        "target": spec.target,
        "platform": spec.platform,
        "owner": context.owner,
        "retain_on_delete": spec.retain_on_delete,
        "pinned": run_request.current().images.get(spec.name),
    }
    set_inputs = {name: value for name, value in inputs.items() if value not in (None, "", [], {})}
    # A valid name even if there are problems, so that they are not reported again for every process.
    reference = f"{'image' if problems else repository}:{tag}"
    image = PlannedImage(spec.name, reference, spec.platform or "", set_inputs, spec.where)
    return _PlannedContent(image, tuple(problems), content.digests)


def _faults(spec: ImageSpec, repository: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the problems of an image's declaration, as (what, remedy)."""
    if not _NAME.fullmatch(spec.name):
        yield "has an invalid name", "use at most 63 lower-case letters, digits and inner hyphens"
    if not repository:
        yield "has no repository", 'set repository="REGISTRY/NAME", or symphony:registry'
    elif not _REPOSITORY.fullmatch(repository):
        yield (
            f"has an invalid repository: {repository}",
            "write REGISTRY/NAME in lower-case letters, without a tag",
        )
    if spec.platform and not _PLATFORM.fullmatch(spec.platform):
        yield f"has an invalid platform: {spec.platform}", 'write one such as "linux/amd64"'
    for name, file in spec.secrets.items():
        if not _SECRET_ID.fullmatch(name) or "," in file:
            yield f"has an invalid secret: {name}={file}", "write {id: path}, without a comma"
        elif not (folder / Path(file).expanduser()).is_file():
            yield (
                f"has the secret {name}, whose file {file} does not exist",
                "create it, or remove the secret",
            )
    secrets = secret_settings()
    for name, value in spec.build_args.items():
        if _SECRET.fullmatch(name) or value in secrets:
            what = f"has the build argument {name}, which every user of the image could read"
            yield what, "pass it to the build with secrets=, or to the process with secret_env="
