"""Fixtures that act as another user of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

UID = 65534
PROGRAM = Path(__file__).with_name("stranger.py")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder where other users can write: not below pytest's own folder, which is private."""
    if os.geteuid():
        pytest.skip("only root can become somebody else")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture
def stranger_calls(place: Path) -> Callable[[int], dict[str, str]]:
    """Return stranger_calls(port): the answer to each RPC that another user sends to the port.

    source: the address and port from which it connects, and the number of tries. An RPC that was answered
    even once has that answer.
    """

    def calls(port: int, uid: int = UID, source: tuple[str, int, int] | None = None) -> dict[str, str]:
        command = [sys.executable, str(PROGRAM), str(uid), str(place), str(port), *map(str, source or ())]
        subprocess.run(command, timeout=60, check=True)
        rows = [line.split() for line in (place / f"answers-{uid}").read_text().splitlines()]
        rows = [row for row in rows if row[0] == str(port)]
        return {row[1]: row[2] for row in sorted(rows, key=lambda row: row[2] != "UNAVAILABLE")}

    return calls
