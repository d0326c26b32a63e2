"""DockerBuilder and clean_images of the original, on the code that builds an Image."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from symphony.errors import UserError
from symphony_docker import context
from symphony_docker.builder import Build, build
from symphony_docker.engine import Engine, names

_SETTINGS = ("dockerfile", "context_directories", "temp_directory", "verbose", "allow")
_OF_DIRECTORY = ("name", "path", "force_update")


class DockerBuilder:
    """Builds an image from files and folders in different places.

    Args:
        dockerfile: The path of the Dockerfile.
        context_directories: Mappings {name, path, force_update}: the file or folder at path is copied into
            the context as name. With force_update=False the copy of an earlier build is kept.
        temp_directory: The folder of the context, which is kept for the next build.
        verbose: Whether to print the output of Docker.
        allow: Files of the context that look like credentials but are not.

    Raises:
        UserError: An entry of context_directories is not valid.

    Example:
        builder = DockerBuilder("Dockerfile", [{"name": "code", "path": "~/rl"}], "/tmp/build")
        builder.build_and_push("europe-docker.pkg.dev/me/rl", "1")
    """

    def __init__(
        self,
        dockerfile: str | Path,
        context_directories: Sequence[Mapping[str, Any]],
        temp_directory: str | Path,
        verbose: bool = True,
        allow: Sequence[str] = (),
    ) -> None:
        self.dockerfile = Path(dockerfile).expanduser().absolute()
        self.temp_directory = Path(temp_directory).expanduser().absolute()
        self.context_directories = [_directory(directory) for directory in context_directories]
        self.verbose = verbose
        self.allow = tuple(allow)
        self._built = ""

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """Return a builder with settings from a mapping.

        Args:
            settings: The arguments of DockerBuilder, by name.

        Raises:
            UserError: A setting is unknown, missing or not valid.

        Example:
            DockerBuilder.from_dict(settings)
        """
        _refuse_unknown(settings, _SETTINGS, "DockerBuilder")
        missing = [name for name in _SETTINGS[:3] if name not in settings]
        if missing:
            raise UserError(f"DockerBuilder's settings have no {' and no '.join(missing)}", remedy="Add it")
        return cls(**settings)

    def build(self, tag: str | None = None) -> str:
        """Build the image and return its id.

        Args:
            tag: The `name` or `name:tag` that the image gets; None for none.

        Raises:
            UserError: A path does not exist, the context has a credential, or a step of the build failed.
            SymphonyError: Docker does not answer.

        Example:
            builder.build("rl:1")
        """
        self._copy_context()
        source = context.Source(str(self.temp_directory), str(self.dockerfile), allow=self.allow)
        read = context.read(source)
        if read.problems:
            what, remedy = read.problems[0]
            raise UserError(what, where=str(self.temp_directory), remedy=remedy)
        engine = Engine()
        engine.facts()  # Raises first if Docker does not answer.
        self._built = build(Build(read, tag or ""), engine.address, log=self._log)
        return self._built

    def tag(self, repo: str, tag: str) -> None:
        """Give the image of the last build the name `repo:tag`.

        Args:
            repo: The repository.
            tag: The tag.

        Raises:
            UserError: No image is built yet.
            SymphonyError: Docker refuses the name, or does not answer.

        Example:
            builder.tag("me/rl", "1")
        """
        Engine().tag(self._image(), repo, tag)

    def push(self, repo: str, tag: str) -> str:
        """Push the image `repo:tag` and return its digest.

        Args:
            repo: The repository.
            tag: The tag.

        Raises:
            SymphonyError: The registry refuses the image, or Docker does not answer.

        Example:
            builder.push("me/rl", "1")
        """
        digest = Engine().push(repo, tag)
        self._log(f"{repo}:{tag} is {repo}@{digest}")
        return digest

    def build_and_push(self, repo: str, tag: str) -> str:
        """Build the image, push it as `repo:tag`, and return its digest.

        Args:
            repo: The repository.
            tag: The tag.

        Raises:
            SymphonyError: build(), tag() or push() raises it.

        Example:
            builder.build_and_push("me/rl", "1")
        """
        self.build()
        self.tag(repo, tag)
        return self.push(repo, tag)

    def _copy_context(self) -> None:
        self.temp_directory.mkdir(parents=True, exist_ok=True)
        for directory in self.context_directories:
            source = Path(directory["path"]).expanduser()
            target = self.temp_directory / str(directory["name"])
            if not source.exists():
                raise UserError(
                    f"{source} does not exist",
                    where=f"context directory {directory['name']}",
                    remedy="Correct its path",
                )
            if target.exists() and not directory["force_update"]:
                continue
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            target.unlink(missing_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(".git"))
            else:
                shutil.copy2(source, target)

    def _image(self) -> str:
        if not self._built:
            raise UserError("no image is built yet", remedy="Call build() first")
        return self._built

    def _log(self, line: str) -> None:
        if self.verbose and line.strip():
            sys.stdout.write(f"{line.rstrip()}\n")


def clean_images(
    patterns: str | Sequence[str],
    force: bool = False,
    force_prune_containers: bool = False,
    force_prune_images: bool = False,
) -> list[str]:
    """Remove the images whose `repo:tag` matches one of the patterns, and return their names.

    Args:
        patterns: A shell pattern, or several.
        force: Remove also images that a container uses.
        force_prune_containers: First remove the containers that have ended.
        force_prune_images: Then remove the images without a name.

    Raises:
        SymphonyError: Docker does not answer.

    Example:
        clean_images(["me/rl:*"], force=True)
    """
    patterns = [patterns] if isinstance(patterns, str) else patterns
    engine = Engine()
    if force_prune_containers:
        engine.prune(containers=True)
    known = [name for name, _ in names(engine.list_images())]
    matching = [name for name in known if any(fnmatchcase(name, pattern) for pattern in patterns)]
    removed = [name for name in matching if not engine.remove(name, force=force)]
    if force_prune_images:
        engine.prune(images=True)
    return removed


def _directory(settings: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_unknown(settings, _OF_DIRECTORY, "an entry of context_directories")
    if missing := [name for name in _OF_DIRECTORY[:2] if not settings.get(name)]:
        raise UserError(f"an entry of context_directories has no {' and no '.join(missing)}", remedy="Add it")
    name = str(settings["name"])
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise UserError(
            f"an entry of context_directories has the name {name}, which leads out of the build context",
            remedy='Set its `name`, not its `path`, to a relative path that does not contain ".."',
        )
    return {"force_update": False, **settings}


def _refuse_unknown(settings: Mapping[str, Any], known: Sequence[str], owner: str) -> None:
    if unknown := [name for name in settings if name not in known]:
        raise UserError(f"{owner} has no setting {unknown[0]}", remedy=f"Use one of: {', '.join(known)}")
