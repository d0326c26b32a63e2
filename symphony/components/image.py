"""Image: a container image that is built from a folder and pushed when an experiment needs it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from symphony.components.errors import as_usage_error
from symphony.spec.convert import texts
from symphony.spec.inputs import ImageSpec
from symphony.spec.location import caller
from symphony.spec.shared import Text, Texts, Variables

if TYPE_CHECKING:
    import pulumi


class Image:
    """A container image, given as `image=` to an experiment, a process group or a process (Kubernetes).

    `symphony up` builds it with Docker and pushes it where something in it changed: the Dockerfile, an
    argument, a file of the context that .dockerignore leaves in. Pods run it by its digest.

    Args:
        name: The name of the image.
        repository: Where it is pushed; by default the setting symphony:registry with the name.
        context: The folder whose files the Dockerfile copies.
        dockerfile: The Dockerfile, from the context.
        build_args: Values of the Dockerfile's ARGs; every user of the image can read them.
        target: The stage of the Dockerfile to build, the last by default.
        platform: Such as "linux/amd64", by default that of the machine that builds; for several, such as
            "linux/amd64,linux/arm64", Docker needs a builder of `docker buildx create`.
        allow: Files that look like credentials and are none.
        secrets: {id: file} for `RUN --mount=type=secret,id=ID` of the Dockerfile, which finds the file in
            /run/secrets. No layer and no history holds it, and a change of it builds nothing anew.
        retain_on_delete: Whether the registry keeps the image when the experiment is deleted.

    Raises:
        UserError: A value has another type. Everything else is a pulumi.RunError at launch.

    Example:
        image = Image("rl", repository="europe-docker.pkg.dev/me/rl", context=".", dockerfile="Dockerfile")
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
        paths: dict[str, Any] = {"context": context, "dockerfile": dockerfile, "build_args": build_args}
        with as_usage_error():
            self._spec = ImageSpec(
                name,
                repository=repository,
                target=target,
                platform=platform,
                allow=cast("Any", allow),
                secrets=cast("Any", secrets),
                retain_on_delete=retain_on_delete,
                where=caller(),
                **paths,
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

        Args:
            name: The name of the image; a program with several images names them.
            requirements: A file for pip, whose packages are a layer of their own; None for none.
            code: Files, folders and globs of the context; by default all that .dockerignore leaves in.
            base: The image that it begins with, which has Python.
            repository: As of Image.
            context: As of Image.
            platform: As of Image.
            allow: As of Image.
            secrets: As of Image, for pip; one with the id "pip.conf" is pip's configuration.
            retain_on_delete: As of Image.

        Example:
            print(Image.python("rl", code=["train.py"]).dockerfile)
        """

        from symphony_docker import dockerfile

        image = cls(
            name,
            repository=repository,
            context=context,
            platform=platform,
            allow=allow,
            secrets=secrets,
            retain_on_delete=retain_on_delete,
        )
        with as_usage_error():
            sources = texts(code, "code")
        needs = os.fspath(requirements) if requirements is not None else None
        image._spec = dataclasses.replace(
            image._spec,
            dockerfile_text=dockerfile.python(base, needs, sources, secrets or ()),
            include=(*sources, *([needs] if needs else [])),
            where=caller(),
        )
        return image

    @property
    def name(self) -> str:
        """The name that the program gave it."""
        return self._spec.name

    @property
    def spec(self) -> ImageSpec:
        """The declaration, as a frozen value."""
        return self._spec

    @property
    def dockerfile(self) -> str:
        """The Dockerfile of Image.python(...), to print, or to write into a file and edit."""
        return self._spec.dockerfile_text

    @property
    def reference(self) -> pulumi.Output[str]:
        """The image by its digest, `repository@sha256:...`, once it is built and pushed.

        It is built on every backend where a program reads this. pulumi.RunError: it cannot be built.
        """
        from symphony.components import run

        return run.image(self._spec)
