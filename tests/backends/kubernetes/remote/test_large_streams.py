"""300 MB through `exec` and `scp`, both ways: every byte arrives, also of split UTF-8 characters."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests.backends.kubernetes.status.test_troubles import SLEEPER
from tests.backends.kubernetes.test_runs import up
from tests.sandbox import SYMPHONY, Sandbox

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.timeout(900)]
MEGABYTES = 300


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """Write a file of multi-byte characters, so that buffers split some of them."""
    file = tmp_path / "big"
    block = ("aäö€\U0001f600" * 90_000).encode()
    with file.open("wb") as stream:
        for number in range(MEGABYTES * 1_000_000 // len(block)):
            stream.write(f"{number}\n".encode() + block)
    return file


def digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def test_exec_and_scp_pass_300_mb_unchanged_in_both_directions(
    sandbox: Sandbox, stack: str, big: Path, tmp_path: Path
) -> None:
    up(sandbox, stack, SLEEPER, code=0)
    wanted = digest(big)
    back = tmp_path / "back"
    script = "tee /tmp/in; sha256sum /tmp/in >&2; exit 7"
    command = [str(SYMPHONY), "exec", stack, "a", "--", "sh", "-c", script]
    with big.open("rb") as source, back.open("wb") as target:
        ran = subprocess.run(
            command, cwd=sandbox.folder, env=sandbox.environment, stdin=source, stdout=target,
            stderr=subprocess.PIPE, timeout=400, check=False,
        )  # fmt: skip
    assert ran.returncode == 7, ran.stderr
    assert ran.stderr.split()[0].decode() == wanted
    assert digest(back) == wanted
    sandbox.symphony("exec", stack, "a", "--", "rm", "/tmp/in")
    sandbox.symphony("scp", stack, str(big), "a:/tmp/in", timeout=300)
    assert sandbox.symphony("exec", stack, "a", "--", "sha256sum", "/tmp/in").out.split()[0] == wanted
    sandbox.symphony("scp", stack, "a:/tmp/in", str(tmp_path / "again"), timeout=300)
    assert digest(tmp_path / "again") == wanted
