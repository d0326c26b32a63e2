"""The cluster as a pytest fixture: `from toolchain.kubernetes.fixtures import cluster` in a conftest.

Sessions share one cluster; the last one takes it down, unless a person brought it up. With
SYMPHONY_TEST_KUBECONFIG the tests use that cluster instead, with the images that SYMPHONY_TEST_IMAGE and
SYMPHONY_TEST_PYTHON_IMAGE name; with CI set a missing cluster is a failure.
"""

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from toolchain.kubernetes import cluster as one_machine
from toolchain.kubernetes import images, python_image, registry
from toolchain.kubernetes.calls import ToolchainError, run, say
from toolchain.kubernetes.layout import Layout

KWOK_NODES = 4
# variable -> the field of Access; the variable names an image that another cluster can pull.
IMAGES = {"SYMPHONY_TEST_IMAGE": "shell_image", "SYMPHONY_TEST_PYTHON_IMAGE": "other_python_image"}


@dataclass(frozen=True)
class Access:
    """How a test reaches the cluster; another cluster than ours has no ordinary user, registry or Docker."""

    kubeconfig: str
    kubectl: str = "kubectl"
    user_kubeconfig: str = ""
    registry: str = ""
    docker_host: str = ""
    shell_image: str = "busybox:1.36"
    other_python_image: str = "python:3.11-slim"

    @property
    def python_image(self) -> str:
        """Return an image with Python 3 and a shell: built from this machine's Python, or one to pull."""
        return python_image.push() if self.registry else self.other_python_image


@pytest.fixture(scope="session")
def cluster() -> Iterator[Access]:
    """Yield the running cluster."""
    os.environ["PATH"] = registry.path_with_buildkit()
    existing = os.environ.get("SYMPHONY_TEST_KUBECONFIG")
    if existing:
        if words := unusable(existing):
            pytest.fail(words, pytrace=False)
        named = {field: os.environ[variable] for variable, field in IMAGES.items() if variable in os.environ}
        yield Access(existing, **named)
        return
    if impossible := one_machine.impossible():
        if os.environ.get("CI"):
            pytest.fail(impossible)
        pytest.skip(f"{impossible}; SYMPHONY_TEST_KUBECONFIG can name another cluster")
    with in_use(Layout.default()) as access:
        yield access


@pytest.fixture(scope="session")
def kubectl(cluster: Access) -> Callable[..., str]:
    """Return a function that runs kubectl as administrator and returns its output."""

    def call(*words: str, stdin: str | None = None, ok: bool = True) -> str:
        argv = [cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", *words]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=90, check=False)
        assert not ok or done.returncode == 0, done.stderr
        return done.stdout

    return call


def unusable(kubeconfig: str) -> str:
    """Return why no test can run on this cluster, or '', so that not every test finds out on its own."""
    try:
        run(["kubectl", f"--kubeconfig={kubeconfig}", "auth", "can-i", "create", "namespaces", "-A"])
    except ToolchainError as error:
        return f"SYMPHONY_TEST_KUBECONFIG needs a user who may make namespaces, and kubectl on PATH: {error}"
    return ""


@contextlib.contextmanager
def in_use(layout: Layout) -> Iterator[Access]:
    """Bring the cluster up if it is down; afterwards take it down if tests started it and none use it."""
    layout.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with layout.path("users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        if not one_machine.status(layout).running:
            # Before `up`: if this session is killed, toolchain.guard takes down a half-built cluster.
            layout.for_tests.touch()
        try:
            state = one_machine.up(layout, kwok_nodes=KWOK_NODES, say=say)
            yield Access(
                state.kubeconfig,
                state.kubectl,
                state.user_kubeconfig,
                state.registry,
                state.docker_host,
                images.BUSYBOX_IMAGE,
            )
        finally:
            one_machine.down_unless_used(layout, users, say=say)
