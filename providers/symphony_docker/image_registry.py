"""Asks registries about images, with the credentials in Docker's settings and without a Docker engine.

It uses these parts of the API of registries (OCI Distribution): a ping, HEAD and DELETE of a manifest, tags.
"""

from __future__ import annotations

import re
from typing import Any

from symphony.errors import SymphonyError, UserError
from symphony_docker import failures

SECONDS = 10
NEEDS_LOGIN = "needs docker login"
_DOCKER_HUB = "registry-1.docker.io"
_KINDS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


def has(repository: str, reference: str) -> bool:
    """Return whether the registry has an image; reference: a tag or a digest. SymphonyError: no answer."""
    return _manifest("HEAD", repository, reference).status_code == 200


def delete(repository: str, tag: str, digest: str) -> None:
    """Remove an image from its registry, unless it has another tag there, which would go with it.

    SymphonyError: the registry does not do it.
    """
    if any(each != tag and _digest(repository, each) == digest for each in _tags(repository)):
        return
    answer = _manifest("DELETE", repository, digest)
    if answer.status_code not in (200, 202, 404):
        why = f"{answer.status_code} {answer.reason}"
        raise UserError(
            f"the registry {failures.host_of(repository)} cannot delete the image: {why}",
            where=f"{repository}@{digest}",
            remedy="Allow deletion in the registry, or set retain_on_delete=True and run `symphony up` first",
        )


def check(host: str) -> str:
    """Return how a registry answers: `open`, `logged in` or `needs docker login`. SymphonyError: none."""
    answer = _send("GET", host, "/v2/", "")
    if answer.status_code == 401:
        return NEEDS_LOGIN
    return "logged in" if _credentials(host) else "open"


def _tags(repository: str) -> list[str]:
    answer = _of_repository("GET", repository, "tags/list")
    body: Any = answer.json() if answer.ok else {}
    return body.get("tags") or []


def _digest(repository: str, tag: str) -> str:
    return str(_manifest("HEAD", repository, tag).headers.get("Docker-Content-Digest", ""))


def logins() -> tuple[list[str], list[str]]:
    """Return the registries with a login in Docker's settings, and the programs that keep their passwords."""
    config = _settings()
    stores: dict[str, str] = config.cred_helpers
    programs = {f"docker-credential-{each}" for each in (config.creds_store, *stores.values()) if each}
    return sorted({*config.auths, *stores}), sorted(programs)


def _settings() -> Any:
    import docker.auth

    return docker.auth.load_config()  # pyright: ignore[reportUnknownMemberType]


def _manifest(verb: str, repository: str, reference: str) -> Any:
    return _of_repository(verb, repository, f"manifests/{reference}")


def _of_repository(verb: str, repository: str, what: str) -> Any:
    host = failures.host_of(repository)
    name = repository.removeprefix(f"{host}/")
    if host == "docker.io" and "/" not in name:
        name = f"library/{name}"
    answer = _send(verb, host, f"/v2/{name}/{what}", name)
    if answer.status_code in (401, 403):
        reason = "unauthorized" if answer.status_code == 401 else "forbidden"
        raise failures.of_push(f"{answer.status_code} {reason}", repository)
    return answer


def _send(verb: str, host: str, path: str, name: str) -> Any:
    import requests

    server = _DOCKER_HUB if host == "docker.io" else host
    scheme = "http" if _LOOPBACK.fullmatch(server) else "https"
    credentials = _credentials(host)
    try:
        with requests.Session() as session:
            # A user's own .netrc is not meant: Docker has its credentials.
            session.trust_env = False
            session.proxies = requests.utils.get_environ_proxies(f"{scheme}://{server}")
            session.headers["Accept"] = _KINDS
            answer = session.request(verb, f"{scheme}://{server}{path}", timeout=SECONDS)
            challenge = answer.headers.get("WWW-Authenticate", "")
            if answer.status_code != 401:
                return answer
            if challenge.lower().startswith("bearer"):
                token = _token(session, dict(_CHALLENGE.findall(challenge)), credentials, name, verb)
                session.headers["Authorization"] = f"Bearer {token}"
            elif credentials:
                session.auth = credentials
            else:
                return answer
            return session.request(verb, f"{scheme}://{server}{path}", timeout=SECONDS)
    except requests.exceptions.RequestException as error:
        raise SymphonyError(
            f"the registry {host} does not answer: {_reason(error)}", remedy="Check its name and the network"
        ) from error


def _token(
    session: Any, challenge: dict[str, str], credentials: tuple[str, str] | None, name: str, verb: str
) -> str:
    if not (realm := challenge.get("realm", "")).startswith("https://"):
        raise SymphonyError(
            "the registry asks for the password over an unencrypted connection, which symphony refuses",
            remedy="Use a registry whose token service uses https",
        )
    actions = "pull,delete" if verb == "DELETE" else "pull"
    asked = {
        "service": challenge.get("service", ""),
        **({"scope": f"repository:{name}:{actions}"} if name else {}),
    }
    answer = session.get(realm, params=asked, auth=credentials, timeout=SECONDS)
    body: Any = answer.json() if answer.ok else {}
    return str(body.get("token") or body.get("access_token") or "")


def _credentials(host: str) -> tuple[str, str] | None:
    """Return the credentials that `docker login` keeps, in its file or with a helper."""
    import docker.errors

    try:
        login: Any = _settings().resolve_authconfig(None if host == "docker.io" else host)
    except docker.errors.DockerException as error:
        raise failures.of_credentials(str(error)) from error
    if not login:
        return None
    if login.get("IdentityToken"):
        return "<token>", str(login["IdentityToken"])
    username = login.get("username") or login.get("Username") or ""
    return str(username), str(login.get("password") or login.get("Password") or "")


def _reason(error: BaseException) -> str:
    text = str(error)
    if "NameResolutionError" in text or "Name or service not known" in text:
        return "unknown host"
    if "Connection refused" in text:
        return "connection refused"
    return (
        "no answer in time" if "timed out" in text.lower() else text.rpartition(": ")[2].strip("()'\" ")[:120]
    )
