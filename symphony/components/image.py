"""Image: a container image that is built from a folder and pushed when an experiment needs it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from symphony.components.usage_errors import as_usage_error
from symphony.spec.location import caller
from symphony.spec.setting import texts
from symphony.spec.shared import ImageSpec, Text, Texts, Variables

if TYPE_CHECKING:
    import pulumi


class Image:
    """A container image to build, for `image=` of an experiment, a process group or a process (Kubernetes).

    `symphony up` builds it with Docker and pushes it if the Dockerfile, an argument or a file of the context
    (without those in .dockerignore) changed. Pods run it by its digest.

    Args:
        name: The name of the image.
        repository: The repository to push to; by default the name in the registry of symphony:registry, else
            in that of the GkeCluster of symphony:cluster.
        context: The folder from which the Dockerfile copies files.
        dockerfile: The path of the Dockerfile, relative to the context.
        build_args: Values of the Dockerfile's ARGs; every user of the image can read them.
        target: The stage of the Dockerfile to build, the last by default.
        platform: A platform such as "linux/amd64", by default the building machine's. Several, such as
            "linux/amd64,linux/arm64", need a builder from `docker buildx create`.
        allow: Files to send although they look like credentials.
        secrets: {id: file} for `RUN --mount=type=secret,id=ID` in the Dockerfile, which reads the file in
            /run/secrets. The image does not contain it, and a changed secret does not rebuild the image.
        retain_on_delete: Whether the registry keeps the image when the experiment is deleted.

    Raises:
        UserError: A value has a wrong type. Other mistakes raise pulumi.RunError at launch.

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
        """Return an image without a Dockerfile: Python, the requirements, caraml, and the code in /app.

        Args:
            name: The name of the image; needed if a program has several images.
            requirements: The requirements file for pip, installed in a separate layer; None to omit it.
            code: Files, folders and globs of the context; by default all that .dockerignore does not exclude.
            base: The base image, which must have Python.
            repository: See Image.
            context: See Image.
            platform: See Image.
            allow: See Image.
            secrets: See Image; available to pip. The id "pip.conf" is pip's configuration.
            retain_on_delete: See Image.

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
        """The name in the program."""
        return self._spec.name

    @property
    def spec(self) -> ImageSpec:
        """The declaration, as a frozen value."""
        return self._spec

    @property
    def dockerfile(self) -> str:
        """The Dockerfile of Image.python(...), to print or to save and edit."""
        return self._spec.dockerfile_text

    @property
    def reference(self) -> pulumi.Output[str]:
        """The image's reference by digest, `repository@sha256:...`, known once it is built and pushed.

        Reading this builds the image on every backend. Raises pulumi.RunError if it cannot be built.
        """
        from symphony.components import program_run

        return program_run.image(self._spec)
