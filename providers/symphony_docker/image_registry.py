"""Client of image registries, with the credentials in Docker's settings and without a Docker engine.

It uses these calls of the OCI Distribution API: a ping, HEAD and DELETE of a manifest, and the list of tags.
"""

from __future__ import annotations

import re
from typing import Any

from symphony.errors import SymphonyError, UserError
from symphony_docker import failures

TIMEOUT_SECONDS = 10
NEEDS_LOGIN = "needs docker login"
_DOCKER_HUB = "registry-1.docker.io"
_MEDIA_TYPES = ", ".join(
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
    """Return whether the registry has an image; reference: a tag or a digest.

    Raises:
        SymphonyError: The registry does not answer, or fails.
    """
    response = _manifest("HEAD", repository, reference)
    if response.status_code == 429 or response.status_code >= 500:
        raise _failure(repository, response)
    return response.status_code == 200


def delete(repository: str, tag: str, digest: str) -> None:
    """Delete an image from its registry, unless another tag points to it: that tag would be deleted too.

    Raises:
        SymphonyError: The registry refuses.
    """
    if any(other != tag and _digest(repository, other) == digest for other in _tags(repository)):
        return
    response = _manifest("DELETE", repository, digest)
    if response.status_code not in (200, 202, 404):
        why = f"{response.status_code} {response.reason}"
        raise UserError(
            f"the registry {failures.host_of(repository)} cannot delete the image: {why}",
            where=f"{repository}@{digest}",
            remedy="Allow deletion in the registry, or set retain_on_delete=True and run `symphony up` first",
        )


def check(host: str) -> str:
    """Return the access to a registry: `open`, `logged in` or `needs docker login`.

    Raises:
        SymphonyError: The registry does not answer.
    """
    response = _send("GET", host, "/v2/", "")
    if response.status_code == 401:
        return NEEDS_LOGIN
    return "logged in" if _credentials(host) else "open"


def _tags(repository: str) -> list[str]:
    """Return the tags of a repository, which a registry may send in several pages.

    Raises:
        SymphonyError: The registry does not answer, or fails.
    """
    tags: list[str] = []
    query = ""
    while True:
        response = _repository_request("GET", repository, f"tags/list{query}")
        if response.status_code == 404:
            return tags
        if not response.ok:
            raise _failure(repository, response)
        tags += response.json().get("tags") or []
        following = response.links.get("next", {}).get("url", "")
        if not following:
            return tags
        query = f"?{following.partition('?')[2]}"


def _failure(repository: str, response: Any) -> SymphonyError:
    host = failures.host_of(repository)
    return SymphonyError(
        f"the registry {host} fails: {response.status_code} {response.reason}",
        remedy="Run the command again later",
    )


def _digest(repository: str, tag: str) -> str:
    return str(_manifest("HEAD", repository, tag).headers.get("Docker-Content-Digest", ""))


def logins() -> tuple[list[str], list[str]]:
    """Return the registries with a login in Docker's settings, and the credential helpers."""
    config = _settings()
    stores: dict[str, str] = config.cred_helpers
    programs = {f"docker-credential-{store}" for store in (config.creds_store, *stores.values()) if store}
    return sorted({*config.auths, *stores}), sorted(programs)


def _settings() -> Any:
    import docker.auth

    return docker.auth.load_config()  # pyright: ignore[reportUnknownMemberType]


def _manifest(verb: str, repository: str, reference: str) -> Any:
    return _repository_request(verb, repository, f"manifests/{reference}")


def _repository_request(verb: str, repository: str, path: str) -> Any:
    host = failures.host_of(repository)
    name = repository.removeprefix(f"{host}/")
    if host == "docker.io" and "/" not in name:
        name = f"library/{name}"
    response = _send(verb, host, f"/v2/{name}/{path}", name)
    if response.status_code == 401:
        raise failures.push_error("401 unauthorized", repository)
    if response.status_code == 403:
        raise UserError(
            f"you have no permission to {'delete from' if verb == 'DELETE' else 'read'} {repository}",
            remedy=f"Ask for the permission, or log in as another user with `docker login {host}`",
        )
    return response


def _send(verb: str, host: str, path: str, name: str) -> Any:
    import requests

    server = _DOCKER_HUB if host == "docker.io" else host
    scheme = "http" if _LOOPBACK.fullmatch(server) else "https"
    credentials = _credentials(host)
    try:
        with requests.Session() as session:
            # Ignore .netrc: only Docker's settings have the credentials.
            session.trust_env = False
            session.proxies = requests.utils.get_environ_proxies(f"{scheme}://{server}")
            session.headers["Accept"] = _MEDIA_TYPES
            response = session.request(verb, f"{scheme}://{server}{path}", timeout=TIMEOUT_SECONDS)
            challenge = response.headers.get("WWW-Authenticate", "")
            if response.status_code != 401:
                return response
            if challenge.lower().startswith("bearer"):
                token = _token(session, dict(_CHALLENGE.findall(challenge)), credentials, name, verb)
                session.headers["Authorization"] = f"Bearer {token}"
            elif credentials:
                session.auth = credentials
            else:
                return response
            return session.request(verb, f"{scheme}://{server}{path}", timeout=TIMEOUT_SECONDS)
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
            where=realm,
            remedy="Use a registry whose token service uses https",
        )
    actions = "pull,delete" if verb == "DELETE" else "pull"
    params = {
        "service": challenge.get("service", ""),
        **({"scope": f"repository:{name}:{actions}"} if name else {}),
    }
    response = session.get(realm, params=params, auth=credentials, timeout=TIMEOUT_SECONDS)
    body: Any = response.json() if response.ok else {}
    return str(body.get("token") or body.get("access_token") or "")


def _credentials(host: str) -> tuple[str, str] | None:
    """Return the credentials of `docker login`, from its file or a helper."""
    import docker.errors

    try:
        login: Any = _settings().resolve_authconfig(None if host == "docker.io" else host)
    except docker.errors.DockerException as error:
        raise failures.credentials_error(str(error)) from error
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
