"""Image: a container image that is built from a folder and pushed when an experiment needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from symphony.spec.inputs.image import ImageSpec
from symphony.spec.location import caller
from symphony.spec.shared import Text, Texts, Variables
from symphony.spec.types import read_path, read_texts, read_variables

if TYPE_CHECKING:
    import pulumi


class Image:
    """A container image, given as `image=` to an experiment, a process group or a process (Kubernetes).

    image = Image("rl", repository="europe-docker.pkg.dev/me/rl", context=".", dockerfile="Dockerfile")

    `symphony up` builds it with Docker and pushes it where something in it changed: the Dockerfile, an
    argument, a file of the context that .dockerignore leaves in. Pods run it by its digest.

    Args:
        name: Name of the image.
        repository: Where it is pushed; by default the setting symphony:registry with the name.
        context: The folder whose files the Dockerfile copies.
        dockerfile: Path of the Dockerfile from there.
        build_args: Values of the Dockerfile's ARGs; everybody who has the image can read them.
        target: The stage of the Dockerfile to build, the last by default.
        platform: Such as "linux/amd64", by default that of the machine that builds; for several, such as
            "linux/amd64,linux/arm64", Docker needs a builder of `docker buildx create`.
        allow: Files that look like credentials and are none.
        secrets: {id: file} for `RUN --mount=type=secret,id=ID` of the Dockerfile, which finds the file in
            /run/secrets. No layer and no history holds it, and a change of it builds nothing anew.
        retain_on_delete: Whether the registry keeps the image when the experiment is deleted.

    Raises:
        pulumi.RunError: At launch: a value is wrong, or the image cannot be built.
    """

    def __init__(
        self,
        name: str,
        *,
        repository: str | None = None,
        context: Text = ".",
        dockerfile: Text = "Dockerfile",
        build_args: Variables | None = None,
        target: str | None = None,
        platform: str | None = None,
        allow: Texts = (),
        secrets: Mapping[str, Text] | None = None,
        retain_on_delete: bool = True,
    ) -> None:
        self._spec = ImageSpec(
            name,
            repository=repository,
            context=read_path(context),
            dockerfile=read_path(dockerfile),
            build_args=read_variables(build_args),
            target=target,
            platform=platform,
            allow=read_texts(allow),
            secrets={name: read_path(file) for name, file in (secrets or {}).items()},
            retain_on_delete=retain_on_delete,
            where=caller(),
        )

    @classmethod
    def python(
        cls,
        name: str = "python",
        *,
        requirements: Text | None = "requirements.txt",
        code: Texts = (".",),
        base: str = "python:3.11-slim",
        repository: str | None = None,
        context: Text = ".",
        platform: str | None = None,
        allow: Texts = (),
        secrets: Mapping[str, Text] | None = None,
        retain_on_delete: bool = True,
    ) -> Self:
        """Return an image that needs no Dockerfile: Python, the requirements, caraml, and the code in /app.

        Image.python("rl", code=["agents", "train.py"])

        Args:
            name: Name of the image; a program with several names each.
            requirements: A file for pip, whose packages are a layer of their own; None for none.
            code: Files, folders and globs of the context; by default all that .dockerignore leaves in.
            base: The image that it begins with, which has Python.
            secrets: As of Image, for pip; one with the id "pip.conf" is pip's configuration.
            repository, context, platform, allow, retain_on_delete: As of Image.

        Example:
            print(Image.python("rl", code=["train.py"]).dockerfile)
        """
        import dataclasses

        from symphony_docker import dockerfile

        needs, sources = read_path(requirements), read_texts(code)
        image = cls(
            name,
            repository=repository,
            context=context,
            platform=platform,
            allow=allow,
            secrets=secrets,
            retain_on_delete=retain_on_delete,
        )
        image._spec = dataclasses.replace(
            image._spec,
            dockerfile_text=dockerfile.python(base, needs, sources, secrets or ()),
            include=(*sources, *([needs] if needs else [])),
            where=caller(),
        )
        return image

    @property
    def name(self) -> str:
        """The name it was declared with."""
        return self._spec.name

    @property
    def spec(self) -> ImageSpec:
        """What was declared, as a frozen value."""
        return self._spec

    @property
    def dockerfile(self) -> str:
        """The Dockerfile of Image.python(...), to print, or to write into a file and edit."""
        return self._spec.dockerfile_text

    @property
    def reference(self) -> pulumi.Output[str]:
        """The image by its digest, `repository@sha256:...`, once it is built and pushed.

        Whoever asks has it built on every backend. pulumi.RunError: it cannot be.
        """
        from symphony.components import run

        return run.image(self._spec)
