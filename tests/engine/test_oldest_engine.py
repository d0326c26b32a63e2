"""The tests of the engine pass with the oldest one that symphony supports; `make test` runs the newest."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sandbox import ROOT
from toolchain import engine

TESTS = (
    "tests/engine/run",
    "tests/components/test_plain_pulumi.py",
    "tests/operations/test_other_resources.py",
)


def test_the_tests_for_the_oldest_engine_exist() -> None:
    assert [name for name in TESTS if not (ROOT / name).exists()] == []


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_engine_tests_pass_with_the_oldest_supported_engine() -> None:
    env = {**os.environ, "PATH": f"{engine.oldest()}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=2700, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
