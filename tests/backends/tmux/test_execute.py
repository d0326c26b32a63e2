"""`symphony exec` in tmux: a signal that arrives before the child is known."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from symphony.backends.access import Streams
from symphony.backends.tmux import access


@pytest.fixture
def stdin() -> Iterator[int]:
    """Return a descriptor that is not a terminal."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_during_exec_startup_reaches_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stdin: int, number: signal.Signals
) -> None:
    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__(*words, **more)
            os.kill(os.getpid(), number)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    began = time.monotonic()
    code = access._run(["sleep", "20"], tmp_path, os.environ, Streams(stdin=stdin))
    assert code == 128 + number
    assert time.monotonic() - began < 10
