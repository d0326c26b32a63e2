"""Outputs that fail and texts that no output may contain, for the tests of the commands."""

from __future__ import annotations

import os
import subprocess
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from tests.sandbox import SYMPHONY, Sandbox


def has_no_control(text: str) -> bool:
    return not any(unicodedata.category(each) == "Cc" for each in text if each != "\n")


def run_into_closed_pipe(sandbox: Sandbox, words: Sequence[str]) -> tuple[int, str]:
    """Return exit code and standard error of a command whose output pipe is already closed."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out:
        return _run(sandbox, words, out)


def run_into_full_disk(sandbox: Sandbox, words: Sequence[str]) -> tuple[int, str]:
    """Return exit code and standard error of a command that writes to a full disk."""
    with Path("/dev/full").open("w") as out:
        return _run(sandbox, words, out)


def _run(sandbox: Sandbox, words: Sequence[str], out: object) -> tuple[int, str]:
    process = sandbox.start([str(SYMPHONY), *words], stdout=out, stderr=subprocess.PIPE)
    _, err = process.communicate(timeout=30)
    assert "Traceback" not in err
    return process.returncode, err
