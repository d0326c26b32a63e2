"""Image: a container image that is built from a folder and pushed when an experiment needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

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

    name:       of the image.
    repository: where it is pushed; by default the setting symphony:registry with the name.
    context:    the folder whose files the Dockerfile copies; dockerfile is found in it.
    build_args: values of the Dockerfile's ARGs; everybody who has the image can read them.
    target:     the stage of the Dockerfile to build, the last by default.
    platform:   such as "linux/amd64"; by default that of the machine that builds.
    allow:      files that look like credentials and are none.
    builder:    what builds it; Docker is what there is today.
    retain_on_delete: whether the registry keeps it when the experiment is deleted; else the last one goes.

    What is wrong, and an image that cannot be built, is a pulumi.RunError at launch.
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
        builder: Literal["docker"] = "docker",
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
            builder=builder,
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
        builder: Literal["docker"] = "docker",
        retain_on_delete: bool = True,
    ) -> Self:
        """An image without a Dockerfile: Python with the requirements, caraml, and the code in /app.

        Image.python("rl", code=["agents", "train.py"])

        name:         of the image; a program with several names each.
        requirements: a file for pip, whose packages are a layer of their own; None for none.
        code:         files, folders and globs of the context; by default all that .dockerignore leaves in.
        base:         the image that it begins with, which has Python.
        repository, context, platform, allow, builder, retain_on_delete: as of Image.

        print(image.dockerfile) shows the Dockerfile that it stands for.
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
            builder=builder,
            retain_on_delete=retain_on_delete,
        )
        image._spec = dataclasses.replace(
            image._spec,
            text=dockerfile.python(base, needs, sources),
            only=(*sources, *([needs] if needs else [])),
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
        """The Dockerfile of Image.python(...), to print or to write into a file and go on with that."""
        return self._spec.text

    @property
    def reference(self) -> pulumi.Output[str]:
        """The image by its digest, `repository@sha256:...`, once it is built and pushed.

        Whoever asks has it built on every backend. pulumi.RunError: it cannot be.
        """
        from symphony.components import run

        return run.image(self._spec)
