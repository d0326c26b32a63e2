"""Failures of Docker and registries as one line with a remedy."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from symphony.errors import UserError
from symphony_docker import builder, failures
from symphony_docker.context import Context
from symphony_docker.engine import Engine


@pytest.mark.parametrize(
    ("text", "step", "what", "remedy"),
    [
        (
            "failed to solve: dockerfile parse error on line 3: unknown instruction: RUNN",
            "",
            "unknown instruction: RUNN",
            "",
        ),
        (
            'process "/bin/sh -c pip install x" did not complete successfully: exit code: 1',
            "RUN pip install x",
            "RUN pip install x failed with exit code 1",
            "",
        ),
        ("executor failed running [/bin/sh -c make]: exit code: 137", "RUN make", "was killed", "memory"),
        (
            "pull access denied, repository does not exist or may require authorization",
            "[internal] load metadata for docker.io/nowhere/x:1",
            "the base image docker.io/nowhere/x:1 cannot be pulled",
            "docker login docker.io",
        ),
        (
            "failed to do request: Head https://r.io/v2/: dial tcp: lookup r.io: no such host",
            "[internal] load metadata for r.io/python:3",
            "cannot be pulled: no such host",
            "network",
        ),
        (
            "write /x: no space left on device",
            "RUN make",
            "disk of the Docker engine is full",
            "images clean",
        ),
        (
            'failed to compute cache key: "/.netrc": not found',
            "COPY .netrc /",
            "COPY .netrc / failed: .netrc is not sent",
            'allow=[".netrc"]',
        ),
        (
            "lstat /var/lib/docker/tmp/buildkit-mount1/.aws: no such file or directory",
            "COPY --chown=1 .aws/credentials /app/",
            "failed: .aws/credentials is not sent",
            'allow=[".aws/credentials"]',
        ),
        (
            'failed to compute cache key: "/../x": not found',
            "COPY ../x /",
            "COPY ../x / failed",
            "",
        ),
        (
            "executor failed running [make]: unable to find user me: no matching entries in passwd file",
            "RUN make",
            "RUN make failed: unable to find user me: no",
            "",
        ),
        ("Cannot connect to the Docker daemon at x. Is it running?", "", "no Docker engine answers", "Start"),
        (
            "Multi-platform build is not supported for the docker driver.",
            "",
            "supports a single platform",
            "docker buildx create",
        ),
    ],
)
def test_build_failures_map_to_one_line_with_a_remedy(text: str, step: str, what: str, remedy: str) -> None:
    error = failures.build_error(text, step, ["one", "two"], "Dockerfile", "unix:///docker.sock")
    assert what in error.what
    assert remedy in error.remedy
    assert "\n" not in error.line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "unauthorized: authentication required",
            "the registry r.io requires a login (r.io/me/rl). Run `docker login r.io`.",
        ),
        (
            "denied: requested access to the resource is denied",
            "you have no permission to write to r.io/me/rl. Ask for",
        ),
        ("403 Forbidden", "you have no permission to write to r.io/me/rl."),
        (
            'Get "https://r.io/v2/": dial tcp 10.0.0.1:443: connect: connection refused',
            "the registry r.io does not answer: connection refused (r.io/me/rl). Run the command again",
        ),
    ],
)
def test_push_failures_map_to_one_line_with_a_remedy(text: str, line: str) -> None:
    assert failures.push_error(text, "r.io/me/rl").line.startswith(line)


def test_several_platforms_without_buildx_are_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's docker command has no buildx, and its own BuildKit builds for one platform."""
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\ntest "$1" = --version && echo "Docker version 20.10.24, build x"\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    build = builder.Build(Context("Dockerfile", "", {}, {}), "r.io/rl:1", platform="linux/amd64,linux/arm64")
    with pytest.raises(UserError, match="several platforms") as error:
        builder.build(build, "unix:///docker.sock")
    assert "buildx" in error.value.remedy


def test_an_unknown_docker_context_is_refused_and_a_known_one_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONTEXT", "lab")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    meta = {
        "Name": "lab",
        "Metadata": {},
        "Endpoints": {"docker": {"Host": "unix:///lab.sock", "SkipTLSVerify": False}},
    }
    folder = tmp_path / "contexts" / "meta" / hashlib.sha256(b"lab").hexdigest()
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(UserError, match=r"config\.json"):
        _ = Engine().api
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setenv("DOCKER_CONTEXT", "laboratory")
    with pytest.raises(UserError, match="no context laboratory"):
        _ = Engine().api
    monkeypatch.setenv("DOCKER_CONTEXT", "lab")
    assert Engine().address == "unix:///lab.sock"
