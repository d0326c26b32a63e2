"""The host of the user's program answers the engine, even where it cannot start the program."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from symphony.engine.run.program_host import _FileServer


def test_a_folder_that_cannot_be_entered_is_an_error_and_no_endless_wait(tmp_path: Path) -> None:
    host = _FileServer(str(tmp_path))
    threading.Thread(target=host.serve, daemon=True).start()
    with pytest.raises(FileNotFoundError):
        host.run(SimpleNamespace(program=".", pwd=str(tmp_path / "gone"), args=[""]), None)
