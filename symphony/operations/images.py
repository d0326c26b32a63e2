"""Lists and removes the images on this machine that symphony built."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase

from symphony import paths
from symphony.backends.stack_settings import key_of
from symphony.engine import workspace
from symphony.errors import SymphonyError, UserError
from symphony.operations import stacks
from symphony.operations.plan import IMAGE
from symphony.plan.names import sort_key
from symphony_docker import failures, image_references
from symphony_docker.engine import Engine, LocalImage, names


@dataclass(frozen=True)
class BuiltImage:
    """An image under one of its names.

    Attributes:
        size: In bytes.
        created: In seconds since 1970.
        used_by: The processes that run it, as `stack process`, or the stack alone.
    """

    repository: str
    tag: str
    digest: str
    size: int
    created: float
    used_by: tuple[str, ...]

    @property
    def reference(self) -> str:
        return f"{self.repository}:{self.tag}" if self.tag else self.repository


def images() -> list[BuiltImage]:
    """Return the images that this user's symphony built on this engine, the newest first.

    Raises:
        SymphonyError: No Docker engine answers.
    """
    used = _image_users()
    # On a shared engine there are also images that another user's symphony built.
    listed = names(Engine().list_images(own=True))
    rows = [_row(name, image, used) for name, image in listed if image_references.is_known(name)]
    return sorted(rows, key=lambda image: (-image.created, image.reference))


def matching(pattern: str) -> list[BuiltImage]:
    """Return the images whose `repository:tag` matches a shell pattern; raise UserError for none."""
    if matched := [image for image in images() if fnmatchcase(image.reference, pattern)]:
        return matched
    raise UserError(
        f'no image matches "{pattern}"', remedy="`symphony images` lists them; write one as REPOSITORY:TAG"
    )


def remove(image: BuiltImage) -> str:
    """Remove an image; return why it could not be removed, or an empty string."""
    if _users(image.reference, _image_users()):
        return "a stack uses this image"
    refusal = Engine().remove(image.reference)
    if not refusal:
        image_references.forget(image.reference)
    return refusal


def registries() -> list[str]:
    """Return the registries of images in states and of the current project's settings."""
    return sorted({failures.host_of(name) for name in (*_image_users(), *_declared_registries())})


def _declared_registries() -> Iterator[str]:
    if (project := workspace.find_usable()) is None:
        return
    for stack in sorted(workspace.configured_stacks(project)):
        # Commands that need the file report that it is unreadable.
        with suppress(SymphonyError):
            registry = workspace.stack_config(project, stack).get(key_of("registry"))
            if isinstance(registry, str):
                yield f"{registry.rstrip('/')}/image"


def _row(name: str, image: LocalImage, used: Mapping[str, Sequence[str]]) -> BuiltImage:
    repository, _, tag = name.rpartition(":") if name != image.id else (name, "", "")
    digests = [digest for digest in image.digests if digest.startswith(f"{repository}@")]
    digest = digests[0].partition("@")[2] if digests else ""
    return BuiltImage(repository, tag, digest, image.size, image.created, _users(name, used))


def _users(name: str, used: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the users of an image, including users in other state stores."""
    suffix = f"#{paths.store_identity()}"
    owners = [owner for owner in image_references.owners(name) if owner and not owner.endswith(suffix)]
    return (*used.get(name, ()), *(f"{paths.stack_of(owner)} (another Pulumi backend)" for owner in owners))


def _image_users() -> Mapping[str, Sequence[str]]:
    """Return the users of each image in the states."""
    users: dict[str, list[str]] = {}
    for stack in stacks.every():
        for resource in stack.resources:
            if resource.type == IMAGE:
                name = f"{resource.inputs.get('repository')}:{resource.inputs.get('tag')}"
                running = (path for path, process in stack.processes.items() if process.get("image") == name)
                names_of_users = [f"{stack.display_name} {path}" for path in sorted(running, key=sort_key)]
                users.setdefault(name, []).extend(names_of_users or [stack.display_name])
    return users
