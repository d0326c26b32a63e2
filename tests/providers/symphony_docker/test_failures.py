"""What Docker and registries say of failures, as one line with what to do."""

from __future__ import annotations

import pytest

from symphony_docker import failures


@pytest.mark.parametrize(
    ("text", "step", "line"),
    [
        (
            "dockerfile parse error on line 3: unknown instruction: RUNN",
            "",
            "the Dockerfile has an error: unknown instruction: RUNN (Dockerfile:3).",
        ),
        (
            "The command '/bin/sh -c pip install x' returned a non-zero code: 1",
            "RUN pip install x",
            "RUN pip install x failed with exit code 1 (Dockerfile).",
        ),
        (
            "The command '/bin/sh -c make' returned a non-zero code: 137",
            "RUN make",
            "RUN make was killed: memory ran out, or the Docker engine stopped (Dockerfile).",
        ),
        (
            "pull access denied for nowhere, repository does not exist or may require 'docker login'",
            "FROM nowhere/x:1",
            "the base nowhere/x:1 cannot be pulled",
        ),
        (
            'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host',
            "FROM python:3.11-slim",
            "the base python:3.11-slim cannot be pulled: no such host (Dockerfile). Check the network",
        ),
        ("write /x: no space left on device", "RUN make", "the disk of the Docker engine is full. Make room"),
        (
            "COPY failed: forbidden path outside the build context: ../x ()",
            "COPY ../x /",
            "COPY ../x / is outside of the context (Dockerfile).",
        ),
    ],
)
def test_why_a_build_failed(text: str, step: str, line: str) -> None:
    error = failures.of_build(text, step, ["one", "two"], "Dockerfile")
    assert error.line.startswith(line)
    assert "\n" not in error.line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "unauthorized: authentication required",
            "the registry r.io asks you to log in (r.io/me/rl). Log in: `docker login r.io`.",
        ),
        ("denied: requested access to the resource is denied", "you may not push to r.io/me/rl. Ask for"),
        ("403 Forbidden", "you may not push to r.io/me/rl."),
        (
            'Get "https://r.io/v2/": dial tcp 10.0.0.1:443: connect: connection refused',
            "the registry r.io does not answer: connection refused (r.io/me/rl). Run it again",
        ),
    ],
)
def test_why_a_push_failed(text: str, line: str) -> None:
    assert failures.of_push(text, "r.io/me/rl").line.startswith(line)
