"""Reaches into processes: they are on this machine, so that commands and copies are plain ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from symphony.backends import copying
from symphony.backends.access import CannotStart, Copied, Streams, Tell, Way
from symphony.backends.observe import Recorded
from symphony_subprocess import processes


def execute(recorded: Recorded, path: str, words: Sequence[str], streams: Streams) -> int:
    facts = recorded.processes[path]
    try:
        code = subprocess.call(
            list(words),
            cwd=facts["cwd"],
            env=processes.environment(facts),
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
        )
    except FileNotFoundError:
        raise CannotStart(127, f"{words[0]}: command not found") from None
    except PermissionError:
        raise CannotStart(126, f"{words[0]}: cannot be executed") from None
    return code if code >= 0 else 128 - code


def shell(recorded: Recorded, path: str, streams: Streams) -> int:
    return execute(recorded, path, [os.environ.get("SHELL", "sh")], streams)


def send(recorded: Recorded, path: str, source: Path, place: str, tell: Tell) -> Copied:
    return copying.copy(source, copying.final_name(_placed(recorded, path, place), source.name), tell)


def fetch(recorded: Recorded, path: str, place: str, target: Path, tell: Tell) -> Copied:
    return copying.copy(Path(_placed(recorded, path, place)), target, tell)


def way(recorded: Recorded, service: str, address: str) -> Way:
    return Way(address)


def _placed(recorded: Recorded, path: str, place: str) -> str:
    return os.path.join(recorded.processes[path]["cwd"], place)  # noqa: PTH118 - keeps an ending slash
