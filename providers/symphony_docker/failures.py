"""Turns what Docker, a registry or the connection to them says of a failure into one line with a remedy."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from symphony.errors import SymphonyError, UserError

INSTALL = "see docs.docker.com/engine/install"
_NO_ENGINE = (
    f"Start Docker, or install it: {INSTALL}. Images cannot be built in the cluster yet (BuildKit, Kaniko)"
)
_PARSE = re.compile(r"dockerfile parse error(?:(?: on)? line (\d+))?: (.*)", re.I)
_NO_BASE = (
    "pull access denied",
    "manifest for ",
    "manifest unknown",
    "repository does not exist",
    "failed to resolve reference",
    "no matching manifest",
    "failed to do request",
)
_UNREACHABLE = ("connection refused", "no such host", "i/o timeout", "dial tcp", "no route to host", "EOF")
_FULL = re.compile("no space left on device", re.I)
_LINES_OF_CAUSE = 20
_KILLED = "137"
_MORE_MEMORY = "Run it again, with more memory for Docker"
_AGAIN = "Run it again later: what is pushed is kept"


class BuildError(UserError):
    """A step of a Dockerfile failed; details are the last lines of its output."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", details: Sequence[str] = ()) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.details = tuple(details)


def no_engine(place: str, why: str = "") -> SymphonyError:
    """No Docker engine answers."""
    reason = f": {why}" if why else ""
    return SymphonyError(f"no Docker engine answers{reason}", where=place, remedy=_NO_ENGINE)


@contextmanager
def in_one_line(doing: str, place: str) -> Generator[None]:
    """What a call of the engine raises, as an error of ours; doing: what the call does, in words."""
    import docker.errors
    import requests
    import urllib3

    try:
        yield
    except SymphonyError:
        raise
    except docker.errors.APIError as error:
        raise of_engine(str(error.explanation or error), doing) from error
    except (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError) as error:
        raise SymphonyError(
            f"the Docker engine did not answer in time during {doing}", where=place, remedy="Run it again"
        ) from error
    # The package docker reads some answers past requests.
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError) as error:
        raise SymphonyError(
            f"the Docker engine went away during {doing}", where=place, remedy="Start it, and run this again"
        ) from error
    except docker.errors.DockerException as error:
        if "Credentials store" in str(error):
            raise of_credentials(str(error)) from error
        raise SymphonyError(f"Docker refused {doing}: {error}", where=place) from error


def of_credentials(text: str) -> UserError:
    """What keeps passwords for Docker gives none."""
    why = text.partition("('")[2].rstrip("')") or text
    remedy = "Install the program, or take it out of Docker's config.json and run `docker login`"
    return UserError(f"Docker's credentials cannot be read: {why}", remedy=remedy)


def of_engine(text: str, doing: str) -> SymphonyError:
    """What the engine refused."""
    text = " ".join(text.split())
    if _FULL.search(text):
        return _full()
    return SymphonyError(f"Docker refused {doing}: {text}")


def of_build(text: str, step: str, output: Sequence[str], dockerfile: str) -> SymphonyError:
    """Why a build failed; step: the one it was at, output: the lines that it wrote."""
    plain = " ".join(text.split())
    # A step that fails for that says so in its own words.
    if _FULL.search(plain) or any(map(_FULL.search, output[-_LINES_OF_CAUSE:])):
        return _full()
    if match := _PARSE.search(plain):
        where = f"{dockerfile}:{match[1]}" if match[1] else dockerfile
        return BuildError(f"the Dockerfile has an error: {match[2]}", where=where)
    if not step and "unknown instruction" in plain:
        return BuildError(f"the Dockerfile has an error: {plain}", where=dockerfile)
    if step.startswith("FROM ") and any(words in plain for words in (*_NO_BASE, *_UNREACHABLE)):
        base = step.split()[1]
        remedy = f"Check its name; if it is private, `docker login {host_of(base)}`"
        if any(words in plain for words in _UNREACHABLE):
            remedy = "Check the network, or name a base that is on this machine"
        return BuildError(
            f"the base {base} cannot be pulled: {_last(plain)}", where=dockerfile, remedy=remedy
        )
    if "platform" in plain and "does not match" in plain:
        return BuildError(plain, where=dockerfile, remedy="Set platform=, or name a base of that platform")
    if match := re.search(r"returned a non-zero code: (\d+)", plain):
        if match[1] == _KILLED:
            what = f"{step} was killed: memory ran out, or the Docker engine stopped"
            return BuildError(what, where=dockerfile, remedy=_MORE_MEMORY, details=output)
        return BuildError(f"{step} failed with exit code {match[1]}", where=dockerfile, details=output)
    if "forbidden path outside the build context" in plain:
        return BuildError(
            f"{step} is outside of the context", where=dockerfile, remedy="Copy it into the context first"
        )
    why = plain.removeprefix("COPY failed: ").removeprefix("ADD failed: ")
    return BuildError(f"{step or 'the build'} failed: {why}", where=dockerfile, details=output)


def of_push(text: str, repository: str) -> SymphonyError:
    """Why a push failed."""
    plain, host = " ".join(text.split()), host_of(repository)
    lowered = plain.lower()
    if _FULL.search(plain):
        return SymphonyError(f"the disk of the registry {host} is full", remedy="Make room there")
    if "unauthorized" in lowered or "no basic auth" in lowered or "authentication required" in lowered:
        return UserError(f"the registry {host} asks you to log in", where=repository, remedy=_login(host))
    if "denied" in lowered or "403" in plain or "forbidden" in lowered:
        return UserError(
            f"you may not push to {repository}",
            remedy=f"Ask for the right to, or log in as another: `docker login {host}`",
        )
    if any(words in plain for words in _UNREACHABLE):
        return SymphonyError(
            f"the registry {host} does not answer: {_last(plain)}",
            where=repository,
            remedy=_AGAIN,
        )
    return SymphonyError(f"the push failed: {plain}", where=repository, remedy=_AGAIN)


def host_of(repository: str) -> str:
    """The registry of a repository, or of an image.

    >>> host_of("localhost:5000/rl"), host_of("me/rl")
    ('localhost:5000', 'docker.io')
    """
    first, _, rest = repository.partition("/")
    is_host = bool(rest) and ("." in first or ":" in first or first == "localhost")
    return first if is_host else "docker.io"


def _login(host: str) -> str:
    return f"Log in: `docker login{'' if host == 'docker.io' else f' {host}'}`"


def _full() -> SymphonyError:
    return SymphonyError("the disk of the Docker engine is full", remedy="Make room: `symphony images clean`")


def _last(text: str) -> str:
    """The end of a chain of errors, which says what really failed."""
    return text.rpartition(": ")[2] or text
