"""Converts errors of Docker and of registries to errors with a place and a remedy."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from symphony.errors import SymphonyError, UserError
from symphony_docker import secrets

INSTALL = "see docs.docker.com/engine/install"
_NO_ENGINE = f"Start Docker, or install it: {INSTALL}. This engine builds the images"
_PARSE = re.compile(r"dockerfile parse error(?: on)? line (\d+): (.*)", re.I)
_ONE_PLATFORM = ("ultiple platforms feature is currently not supported", "ulti-platform build is not")
_METADATA = "[internal] load metadata for "
_ENGINE_STOPPED = (
    "code = Unavailable",
    "error reading from server: EOF",
    "connection reset by peer",
    "unexpected EOF",
    "did not provide an image ID",
)
_UNREACHABLE = ("connection refused", "no such host", "i/o timeout", "dial tcp", "no route to host", "EOF")
_DISK_FULL = re.compile("no space left on device", re.I)
_CAUSE_LINES = 20
_KILLED = "137"
_MORE_MEMORY = "Run the command again with more memory for Docker"
_RETRY = "Run the command again later; layers that were pushed are kept"


class BuildError(UserError):
    """The failure of a build; the details, if any, are the last lines of the failed step's output."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", details: Sequence[str] = ()) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.details = tuple(details)


def no_engine_error(place: str, why: str = "") -> SymphonyError:
    """Return the error for a Docker engine that does not answer."""
    reason = f": {why}" if why else ""
    return SymphonyError(f"no Docker engine answers{reason}", where=place, remedy=_NO_ENGINE)


@contextmanager
def engine_call(purpose: str, place: str) -> Generator[None]:
    """Convert the errors of a call of the engine to SymphonyError; purpose: "the push", "an inspection"."""
    import docker.errors
    import requests
    import urllib3

    try:
        yield
    except SymphonyError:
        raise
    except docker.errors.APIError as error:
        raise engine_error(str(error.explanation or error), purpose) from error
    except (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError) as error:
        raise SymphonyError(
            f"the Docker engine timed out during {purpose}", where=place, remedy="Run the command again"
        ) from error
    # The docker package reads some responses without requests.
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError) as error:
        raise SymphonyError(
            f"the Docker engine stopped during {purpose}",
            where=place,
            remedy="Start Docker, and run the command again",
        ) from error
    except docker.errors.DockerException as error:
        if "Credentials store" in str(error):
            raise credentials_error(str(error)) from error
        raise SymphonyError(f"Docker refused {purpose}: {error}", where=place) from error


def credentials_error(text: str) -> UserError:
    """Return the error for a credential helper of Docker that fails."""
    why = text.partition("('")[2].rstrip("')") or text
    remedy = "Install that program, or remove it from Docker's config.json and run `docker login`"
    return UserError(f"Docker's credentials cannot be read: {why}", remedy=remedy)


def engine_error(text: str, purpose: str) -> SymphonyError:
    """Return the error for a call that the engine refused."""
    text = " ".join(text.split())
    if _DISK_FULL.search(text):
        return _full_disk_error()
    return SymphonyError(f"Docker refused {purpose}: {text}")


def build_error(text: str, step: str, output: Sequence[str], dockerfile: str, host: str) -> SymphonyError:
    """Return the reason why a build failed.

    Args:
        text: The error, as BuildKit or the docker command words it.
        step: The step that failed, such as `RUN make`; empty if none had started.
        output: The last lines of the step's output.
        dockerfile: The name of the Dockerfile.
        host: The address of the Docker engine.
    """
    plain = " ".join(text.split())
    # A step that runs out of disk space reports it in its output.
    if _DISK_FULL.search(plain) or any(map(_DISK_FULL.search, output[-_CAUSE_LINES:])):
        return _full_disk_error()
    if any(words in plain for words in ("Cannot connect to the Docker daemon", "error during connect")):
        return no_engine_error(host, "it is not running")
    if any(words in plain for words in _ENGINE_STOPPED):
        return SymphonyError(
            "the Docker engine stopped during the build",
            where=host,
            remedy="Start Docker, and run the command again",
        )
    if match := _PARSE.search(plain):
        return BuildError(f"the Dockerfile has an error: {match[2]}", where=f"{dockerfile}:{match[1]}")
    base_image = step.removeprefix(_METADATA)
    if base_image != step:
        remedy = f"Check its name; if it is private, run `docker login {host_of(base_image)}`"
        if any(words in plain for words in _UNREACHABLE):
            remedy = "Check the network, or use a base image that is on this machine"
        return BuildError(
            f"the base image {base_image} cannot be pulled: {_cause(plain)}", where=dockerfile, remedy=remedy
        )
    if match := re.search(r"exit code: (\d+)", plain):
        if match[1] == _KILLED:
            what = f"{step} was killed: memory ran out, or the Docker engine stopped"
            return BuildError(what, where=dockerfile, remedy=_MORE_MEMORY, details=output)
        return BuildError(f"{step} failed with exit code {match[1]}", where=dockerfile, details=output)
    if any(words in plain for words in _ONE_PLATFORM):
        return BuildError(
            "Docker's current builder supports a single platform",
            where="platform",
            remedy="Run `docker buildx create --use`: it creates a builder that supports several platforms",
        )
    if name := _withheld_source(step, plain):
        what = f"{step} failed: {name} is not sent unless allow= names it"
        remedy = f'Set allow=["{name}"] to put it into the image, or give a credential to a RUN with secrets='
        return BuildError(what, where=dockerfile, remedy=remedy)
    if missing := re.search(r'"/?([^"]+)"(?: not found)?: not found', plain):
        why = f"{missing[1]} is not in the context, or .dockerignore excludes it"
        remedy = "Correct its path, or let .dockerignore keep it"
        if "--from=" in step:
            why, remedy = f"{missing[1]} is not in the stage or image of --from", "Correct its path"
        return BuildError(f"{step} failed: {why}", where=dockerfile, remedy=remedy)
    # As in `unable to find user me: no matching entries in passwd file`, whose last part names no user.
    cause = match[0] if (match := re.search("unable to find (user|group) .*", plain)) else _cause(plain)
    return BuildError(f"{step or 'the build'} failed: {cause}", where=dockerfile, details=output)


def _withheld_source(step: str, error: str) -> str:
    """Return the source of a COPY or ADD step that is not found since it is left out; empty if none is."""
    if not (step.startswith(("COPY ", "ADD ")) and ("not found" in error or "no such file" in error)):
        return ""
    sources = re.findall(r'[^\s",\[\]]+', step)[1:-1]
    return next((source for source in sources if secrets.is_withheld(source)), "")


def push_error(text: str, repository: str) -> SymphonyError:
    """Return the reason why a push failed, or why a registry refused a request without a login."""
    plain, host = " ".join(text.split()), host_of(repository)
    lower = plain.lower()
    if _DISK_FULL.search(plain):
        return SymphonyError(f"the disk of the registry {host} is full", remedy="Free some space there")
    if "unauthorized" in lower or "no basic auth" in lower or "authentication required" in lower:
        return UserError(f"the registry {host} requires a login", where=repository, remedy=_login(host))
    if "denied" in lower or re.search(r"\b403\b", plain) or "forbidden" in lower:
        return UserError(
            f"you have no permission to write to {repository}",
            remedy=f"Ask for the permission, or log in as another user with `docker login {host}`",
        )
    if any(words in plain for words in _UNREACHABLE):
        return SymphonyError(
            f"the registry {host} does not answer: {_cause(plain)}",
            where=repository,
            remedy=_RETRY,
        )
    return SymphonyError(f"the push failed: {plain}", where=repository, remedy=_RETRY)


def host_of(repository: str) -> str:
    """Return the host of the registry of a repository or image.

    >>> host_of("localhost:5000/rl"), host_of("me/rl")
    ('localhost:5000', 'docker.io')
    """
    first, _, rest = repository.partition("/")
    is_host = bool(rest) and ("." in first or ":" in first or first == "localhost")
    return first if is_host else "docker.io"


def _login(host: str) -> str:
    return f"Run `docker login{'' if host == 'docker.io' else f' {host}'}`"


def _full_disk_error() -> SymphonyError:
    return SymphonyError(
        "the disk of the Docker engine is full",
        remedy="Run `docker builder prune` or `symphony images clean` to free space",
    )


def _cause(text: str) -> str:
    return text.rpartition(": ")[2] or text
