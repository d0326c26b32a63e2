"""One engine run as a stream of typed events that can be stopped within five seconds.

    with Run("up", workspace, "rl", extra=request.environment) as run:
        for event in run:
            ...
    errors.check(run.outcome)

The engine streams its events as JSON over a pipe: no log file with the values of a program lies on a disk.
Pulumi's Automation API would start six processes for one run, and write such a file.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self, cast

from symphony import files
from symphony.engine import binary, environment
from symphony.engine.run import checkpoints, start, watchdog
from symphony.engine.run.command import engine_command, needs_no_network, require_symphony
from symphony.engine.run.events import Diagnostic, Event, Idle, Note, Reader, Report, RunRestarted, Summary
from symphony.engine.run.outcome import Outcome, Result, Verb
from symphony.engine.state import file_store, locks, prune
from symphony.engine.workspace import Workspace
from symphony.errors import SymphonyError

# From Ctrl-C to the end of everything: the engine lets what is under way finish. Then plugins and program are
# killed under it: what they were at fails, and the engine still saves what is done. Then it is killed itself.
KILL_AFTER = watchdog.GRACE
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_KEPT_OF_STDERR = 64 * 1024


class Run:
    """One `pulumi up|preview|destroy|refresh`; iterate over it for its events, then read `outcome`."""

    def __init__(
        self,
        verb: Verb,
        workspace: Workspace,
        stack: str,
        *,
        extra: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        fetch_plugins: bool = False,
        stopped: threading.Event | None = None,
    ) -> None:
        self.verb: Verb = verb
        self.workspace = workspace
        self.stack = stack
        self.extra = dict(extra or {})
        self._options = tuple(options)
        self._fetch_plugins = fetch_plugins
        self._stopped = stopped
        self._needs_plugins = False
        self._keeps_checkpoints = self._skips_checkpoints = False
        self._diagnostics: list[Diagnostic] = []
        self._summary: Summary | None = None
        self._stderr = bytearray()
        self._outcome: Outcome | None = None
        self._stop_asked: float | None = None
        self._stop_level = 0
        self._previous: dict[int, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._noted = ExitStack()
        self._notes: list[Note] = []
        self._began = time.monotonic()

    @property
    def outcome(self) -> Outcome:
        """How the run ended; asking before it has is a bug of the caller."""
        assert self._outcome is not None, "the run has not ended"
        return self._outcome

    @property
    def _name(self) -> file_store.StackName:
        return file_store.StackName(self.workspace.project, self.stack)

    def stop(self) -> None:
        """Ask the engine to stop; safe from any thread and from a signal handler. Asked twice: at once."""
        if self._stop_asked is None:
            self._stop_asked = time.monotonic()
        else:
            self._stop_asked = time.monotonic() - KILL_AFTER

    def __enter__(self) -> Self:
        binary.require()
        file_store.prepare()
        if self.verb != "preview":
            self._notes = [Note(text) for text in locks.recover(self.workspace.project, self.stack)]
        file_store.mend(self._name)
        self._command = self._engine()
        if self.verb in ("up", "preview"):
            require_symphony(self.workspace, self.stack, self._command[1])
        self._take_signals()
        try:
            self._start(*self._command)
        except BaseException:
            self._noted.close()
            self._give_signals_back()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._outcome is None and self._process is not None:
                # The caller left in the middle: what it did not read is not worth waiting for, the end is.
                self.stop()
                for _ in self:
                    pass
        finally:
            self._end()
            self._give_signals_back()

    def __iter__(self) -> Iterator[Event]:
        yield from self._notes
        self._notes = []
        yield from self._events()
        if self.outcome.result == "failed" and not self._fetch_plugins and self._needs_plugins:
            self._fetch_plugins = True
            self._command = self._engine()
            yield from self._again()
        if self.outcome.result == "failed" and checkpoints.were_needed(self._diagnostics):
            self._keeps_checkpoints = True
            self._command = self._engine()
            yield from self._again()

    def _events(self) -> Iterator[Event]:
        process = self._process
        assert process is not None, "use `with Run(...) as run`"
        for line in self._lines(process):
            event = self._reader.read(line, time.monotonic()) if line else Idle()
            if isinstance(event, Diagnostic) and not event.ephemeral:
                self._diagnostics.append(event)
            elif isinstance(event, Summary):
                self._summary = event
            elif isinstance(event, Report):
                self._needs_plugins = self._needs_plugins or "needs_plugins" in event.facts
            if event is not None:
                yield event
        self._finish(process)

    def _again(self) -> Iterator[Event]:
        self._outcome = None
        self._stderr.clear()
        self._diagnostics.clear()
        self._start(*self._command)
        yield RunRestarted()
        yield from self._events()

    def _engine(self) -> tuple[Path, dict[str, str]]:
        """Return the program of the engine, and its environment."""
        engine = binary.require()
        env = environment.for_engine(engine, extra=self.extra, fetch_plugins=self._fetch_plugins)
        self._skips_checkpoints = (
            self.verb != "preview"
            and not self._keeps_checkpoints
            and checkpoints.may_be_skipped(env, self._name)
        )
        env[locks.COMMAND] = str(os.getpid())
        if self._skips_checkpoints:
            env[checkpoints.VARIABLE] = "true"
        return engine.pulumi, env

    def _start(self, pulumi: Path, env: Mapping[str, str]) -> None:
        self._reader = Reader()
        self._began = time.monotonic()
        command = self._engine_command(str(pulumi), env)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.workspace.folder,
                env=env,
                start_new_session=True,
                umask=0o077,
            )
        except OSError as error:
            raise SymphonyError(
                f"pulumi does not start: {error.strerror}",
                where=str(pulumi),
                remedy="Run `symphony setup` for a working one",
            ) from error
        pipes = [pipe.fileno() for pipe in (self._process.stdout, self._process.stderr) if pipe is not None]
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__, str(self._process.pid), *map(str, pipes)],
            pass_fds=pipes,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _engine_command(self, pulumi: str, env: Mapping[str, str]) -> list[str]:
        # For one start of the engine: a second start finds no sockets of the first in it.
        folder = files.own_folder(files.process_folder() / os.urandom(4).hex())
        self._noted.callback(shutil.rmtree, folder, ignore_errors=True)
        # A deletion runs no program, but the engine asks its server for plugins. Without a server it asks
        # Pulumi's language host, which makes a virtualenv that is missing.
        return engine_command(
            [pulumi, *self._arguments(), f"--client=unix:{folder / start.PROGRAM}"],
            folder,
            self.workspace,
            env,
            serves_program=not self._serve_program(folder),
            skips_checkpoints=self._skips_checkpoints,
            namespace=not self._fetch_plugins and needs_no_network(self.workspace, self.stack, env),
        )

    def _serve_program(self, folder: Path) -> bool:
        """Serve a program of this process in the folder, at start.PROGRAM; return whether it has one."""
        return False

    def _arguments(self) -> list[str]:
        arguments = [self.verb, f"--stack={self.stack}", "--json", "--non-interactive", "--color=never"]
        if self.verb != "preview":
            arguments += ["--yes", "--skip-preview"]
        return [*arguments, *self._options]

    def _lines(self, process: subprocess.Popen[bytes]) -> Iterator[bytes]:
        """The lines of standard output, an empty one where none comes for a moment.

        Keeps the end of standard error and watches the clock meanwhile.
        """
        assert process.stdout is not None
        assert process.stderr is not None
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            selector.register(process.stderr, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(0.1)
                if not ready and _has_ended(process):
                    break  # A child that outlives the engine may still hold the pipes.
                if not ready:
                    yield b""
                for key, _ in ready:
                    chunk = os.read(key.fd, 1 << 16)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is process.stderr:
                        self._stderr = (self._stderr + chunk)[-_KEPT_OF_STDERR:]
                    else:
                        *lines, rest = (rest + chunk).split(b"\n")
                        yield from lines
                self._watch_clock(process)
        if rest:
            yield rest

    def _watch_clock(self, process: subprocess.Popen[bytes]) -> None:
        """Interrupt, leave it nothing but to save, kill: each once, as the time since the stop goes by."""
        if self._stop_asked is None and self._stopped is not None and self._stopped.is_set():
            self.stop()
        if self._stop_asked is None:
            return
        waited = time.monotonic() - self._stop_asked
        if self._stop_level == 0:
            self._stop_level = 1
            process.send_signal(signal.SIGINT)
        if self._stop_level == 1 and waited > watchdog.SAVE_AFTER:
            self._stop_level = 2
            watchdog.kill_session(process.pid, spare_leader=True)
        if self._stop_level == 2 and waited > KILL_AFTER:
            self._stop_level = 3
            watchdog.kill_session(process.pid)

    def _finish(self, process: subprocess.Popen[bytes]) -> None:
        while not _has_ended(process):
            self._watch_clock(process)
            time.sleep(0.01)
        self._end()
        if self.verb != "preview":
            prune.prune(self.workspace.project, self.stack)
        code = process.returncode
        result: Result = "succeeded" if code == 0 else "failed"
        # Stopped before its first step the engine ends with 0 and has changed nothing.
        if self._stop_asked is not None and (code != 0 or not (self._summary and self._summary.changes)):
            result = "interrupted"
        self._outcome = Outcome(
            verb=self.verb,
            stack=self.stack,
            project=self.workspace.project,
            folder=self.workspace.folder,
            result=result,
            exit_code=code,
            summary=self._summary,
            diagnostics=tuple(self._diagnostics),
            stderr=self._stderr.decode(errors="replace"),
            seconds=time.monotonic() - self._began,
        )

    def _end(self) -> None:
        """Leave nothing behind: the engine, its plugins and program, the watcher, the pipes."""
        process, self._process = self._process, None
        if process is not None:
            # Not reaped yet, so its number is still its own and the session is surely this one.
            watchdog.kill_session(process.pid)
            process.wait(timeout=10)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        self._noted.close()
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            try:
                watcher.communicate(b"done", timeout=10)
            except subprocess.TimeoutExpired:
                watcher.kill()
                watcher.wait(timeout=10)

    def _take_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._on_signal)
            elif number == signal.SIGINT:
                # A shell's `&` has it ignored. The engine ends its plugins with it, and waits 5 s for one
                # that inherited that; what is handled here is not inherited.
                self._previous[number] = signal.signal(number, _pass_over)

    def _give_signals_back(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, cast("signal.Handlers", handler))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stop()


def _pass_over(number: int, frame: FrameType | None) -> None:
    """What ignoring a signal does."""


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process ended, without reaping it."""
    if process.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
