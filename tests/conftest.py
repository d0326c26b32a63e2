"""Fixtures of every test: its own symphony home, state folder and Pulumi home."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.workermanage import WorkerController

from symphony.engine import binary

if TYPE_CHECKING:
    from tests.sandbox import Sandbox

_OF_THE_USER = (
    "PULUMI_ACCESS_TOKEN",
    "PULUMI_CONFIG_PASSPHRASE_FILE",
    "PULUMI_PYTHON_CMD",
    "PULUMI_STACK",
    "SYMPHONY_DEBUG",
    "XDG_STATE_HOME",
)

_ENDED = pytest.StashKey[bool]()
_START_EXPERIMENTS = {"backend", "cluster", "engine", "sandbox", "slurm"}

# A shell starts background jobs with SIGINT ignored, and nohup with SIGHUP ignored; programs inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No deadline, because a busy machine is slow. Examples are the same in every run; with
# HYPOTHESIS_PROFILE=random they are new, and those that fail become an @example.
_BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", _BUSY, derandomize=True)
settings.register_profile("random", _BUSY)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with experiments first: the others fill what is left of the workers' time at the end."""
    files = {item.path for item in items if _START_EXPERIMENTS & {*getattr(item, "fixturenames", ())}}
    items.sort(key=lambda item: item.path not in files)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController, error: object) -> None:
    """Fail the run if a worker was killed: some of its tests did not run."""
    if error:
        node.config.stash[_ENDED] = True


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash.get(_ENDED, False):
        session.exitstatus = 3


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a private SYMPHONY_HOME that contains the state, and a passphrase."""
    for name in _OF_THE_USER:
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    monkeypatch.setenv("SYMPHONY_HOME", str(home))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi-home"))
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{home / 'state'}")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "test")
    return home


@pytest.fixture(scope="session")
def engine() -> binary.Engine:
    """Return the real engine; a missing engine is a failure, since a skip would hide it."""
    engine = binary.find()
    if engine is None:
        pytest.fail("the Pulumi engine is not on this machine: run `make setup`")
    return engine


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=lambda mask: f"umask-{mask:03o}")
def any_umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run the test with an open, the usual and a closed umask."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """Yield a sandbox for this test, with an empty project."""
    from tests.sandbox import sandbox_in

    with sandbox_in(tmp_path) as made:
        yield made
