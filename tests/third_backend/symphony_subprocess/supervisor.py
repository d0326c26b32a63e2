"""The program that supervises one process: `python supervisor.py FOLDER`; keeps its log and how it ended."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

_CANNOT_START = {FileNotFoundError: 127, PermissionError: 126}


def main(folder: Path) -> None:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        # They are for the program: its end is to be written down.
        signal.signal(number, lambda number, frame: None)
    start = json.loads((folder / "start.json").read_text())
    lock = (folder / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    status: dict[str, Any] = {"attempt": start["attempt"], "began": time.time()}
    with (folder / "log").open("ab", buffering=0) as log:
        code = _run(start, status, folder, log)
        _write(log, f"ended: {signal.Signals(-code).name if code < 0 else f'exit {code}'}", ended=True)
    _note(folder, {**status, "ended": time.time(), "code": code})


def _run(start: dict[str, Any], status: dict[str, Any], folder: Path, log: IO[bytes]) -> int:
    try:
        process = subprocess.Popen(
            start["argv"],
            cwd=start["cwd"],
            env={**os.environ, **start["env"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        _write(log, f"{start['argv'][0]}: {error.strerror}")
        _note(folder, status)
        return _CANNOT_START.get(type(error), 126)
    status["pid"] = process.pid
    _note(folder, status)
    assert process.stdout is not None
    # What a child of the program keeps open is no reason not to tell its end.
    reader = threading.Thread(target=_keep, args=(process.stdout, log), daemon=True)
    reader.start()
    code = process.wait()
    reader.join(timeout=1)
    return code


def _keep(output: IO[bytes], log: IO[bytes]) -> None:
    for line in output:
        _write(log, line.decode(errors="replace").rstrip("\r\n"))


def _write(log: IO[bytes], text: str, **more: Any) -> None:
    log.write(json.dumps({"time": time.time(), "text": text, **more}).encode() + b"\n")


def _note(folder: Path, status: dict[str, Any]) -> None:
    new = folder / "status.new"
    new.write_text(json.dumps(status))
    new.replace(folder / "status.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
