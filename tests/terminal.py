"""A real terminal: one command in a pane of a private tmux server, its screen and its keys."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.sandbox import Sandbox, wait_for

# The tmux server is the screen; the command must not think that it runs in a user's tmux.
_PLAIN = ("env", "-u", "TMUX", "-u", "TMUX_PANE")


class Terminal:
    """One command on a screen with a given number of columns and rows."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def screen(self) -> str:
        """Return the text on the screen."""
        return self._tmux("capture-pane", "-p", "-t", "0")

    def colours(self) -> str:
        """Return the text on the screen with its colour escapes."""
        return self._tmux("capture-pane", "-p", "-e", "-t", "0")

    def history(self) -> str:
        """Return the text on the screen including what scrolled away."""
        return self._tmux("capture-pane", "-p", "-S", "-", "-t", "0")

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", "0", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-t", "0", "-x", str(columns), "-y", str(rows))

    def shows(self, text: str, seconds: float = 20) -> str:
        """Wait until a text is on the screen, and return the screen."""
        try:
            return wait_for(
                lambda: text in (now := self.screen()) and now, seconds, f"{text!r} on the screen"
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.screen()}") from None

    def ends(self, seconds: float = 30) -> int:
        """Wait until the command has ended, and return its exit code."""
        state = "#{pane_dead} #{pane_dead_status}"

        def ended() -> list[str]:
            words = self._tmux("display-message", "-p", "-t", "0", state).split()
            if words == ["1"]:
                # tmux 3.3a sometimes misses the end of a child until another command arrives.
                os.kill(int(self._tmux("display-message", "-p", "#{pid}")), signal.SIGCHLD)
            return words if len(words) == 2 and words[0] == "1" else []

        return int(wait_for(ended, seconds, f"the end of the command\n{self.screen()}")[1])

    def close(self) -> None:
        server = self._tmux("display-message", "-p", "#{pid}")
        os.kill(int(server), signal.SIGKILL)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *words], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.rstrip("\n")


@contextmanager
def terminal(
    sandbox: Sandbox,
    command: list[str],
    *,
    columns: int = 100,
    rows: int = 30,
    env: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """Run a command of a sandbox on a terminal, which is closed afterwards."""
    socket = sandbox.home.parent / "terminal.sock"
    socket.unlink(missing_ok=True)
    size = ["-x", str(columns), "-y", str(rows)]
    start = ["start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";", "new-session", "-d", *size]
    subprocess.run(
        ["tmux", "-S", str(socket), "-f", "/dev/null", *start, "-c", str(sandbox.folder), *_PLAIN, *command],
        env={**sandbox.environment, **(env or {})},
        timeout=10,
        check=True,
    )
    opened = Terminal(socket)
    try:
        yield opened
    finally:
        opened.close()


class Shell:
    """A shell on a terminal, in which commands are typed one after the other."""

    def __init__(self, shown: Terminal) -> None:
        self.terminal = shown
        self._typed = 0

    def begin(self, command: str) -> None:
        """Type a command, which may ask a question."""
        self._typed += 1
        self.terminal.type(f"clear; {command}; echo end {self._typed} $?", "Enter")

    def end(self, seconds: float = 30) -> tuple[int, str]:
        """Return the exit code of the command, and its output."""
        line = re.compile(rf"^end {self._typed} (\d+)$", re.MULTILINE)
        result = wait_for(
            lambda: line.search(self.terminal.history()), seconds, f"the end of {self.terminal.screen()}"
        )
        return int(result[1]), result.string[: result.start()].strip("\n")

    def run(self, command: str) -> tuple[int, str]:
        self.begin(command)
        return self.end()


@contextmanager
def shell(sandbox: Sandbox) -> Iterator[Shell]:
    """Yield a shell in the folder of a sandbox; `symphony` and `python` are those of the tests."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{sandbox.environment['PATH']}"
    command = ["bash", "--norc", "--noprofile", "+o", "history"]
    with terminal(sandbox, command, columns=240, rows=50, env={"PATH": path, "PS1": "$ "}) as shown:
        yield Shell(shown)
