"""Run: an engine run as a stream of typed events, which can be stopped within five seconds.

    with Run("up", workspace, "rl", extra=request.environment) as run:
        for event in run:
            ...
    errors.check(run.outcome)

The engine streams its events as JSON over a pipe: no log file with the values of a program lies on a disk.
Pulumi's Automation API would start six processes for one run, and write such a file.
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, cast

from symphony import files, socket_relay
from symphony.engine import binary, environment
from symphony.engine import workspace as workspaces
from symphony.engine.run import checkpoints, start, watchdog
from symphony.engine.run.events import (
    Diagnostic,
    Event,
    Idle,
    Note,
    Outcome,
    Reader,
    Report,
    Result,
    RunRestarted,
    Summary,
    Verb,
)
from symphony.engine.state import file_store, locks, store
from symphony.engine.workspace import Workspace
from symphony.errors import SymphonyError, UserError

# "host" leaves the engine in the network of the machine.
NETWORK = "SYMPHONY_NETWORK"
# The types of resources that need no network in the engine: the providers outside of it make them.
_LOCAL = ("symphony:", "pulumi:", "pulumi-python:")
# An option of `refresh`, with which it changes nothing.
PREVIEW_ONLY = "--preview-only"
# Seconds from Ctrl-C to SIGKILL. The engine waits for the operations in progress. After SAVE_AFTER, plugins
# and program are killed: their operations fail, and the engine still saves the others.
KILL_AFTER = watchdog.GRACE
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Bytes.
_MOST_STDERR = 64 * 1024


class Run:
    """A `pulumi up|preview|destroy|refresh`; iterate over it for its events, then read `outcome`.

    With `program`, a function of this process runs in place of the project's program, such as that of
    `cluster.launch()` in a script: the engine asks this process over gRPC to run it, in a thread.
    """

    def __init__(
        self,
        verb: Verb,
        workspace: Workspace,
        stack: str,
        *,
        program: Callable[[], object] | None = None,
        extra: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        fetch_plugins: bool = False,
    ) -> None:
        self.verb: Verb = verb
        self.workspace = workspace
        self.stack = stack
        self._program = program
        self.extra = {**(_python() if program else {}), **(extra or {})}
        self._options = tuple(options)
        self._fetch_plugins = fetch_plugins
        self._needs_plugins = False
        self._keeps_checkpoints = False
        self._skips_checkpoints = False
        self._diagnostics: list[Diagnostic] = []
        self._summary: Summary | None = None
        self._stderr = bytearray()
        self._outcome: Outcome | None = None
        self._stopped_at: float | None = None
        self._is_terminated = False
        self._stop_level = 0
        self._previous: dict[int, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        # Removes the sockets of the current engine, and stops the server of its program.
        self._cleanup = ExitStack()
        self._notes: list[Note] = []
        self._began = time.monotonic()

    @property
    def outcome(self) -> Outcome:
        """The end of the run, once it has ended."""
        assert self._outcome is not None, "the run has not ended"
        return self._outcome

    @property
    def _changes_state(self) -> bool:
        return self.verb != "preview" and PREVIEW_ONLY not in self._options

    @property
    def _name(self) -> file_store.StackName:
        return file_store.StackName(self.workspace.project, self.stack)

    def stop(self) -> None:
        """Ask the engine to stop; a second call stops it at once. Safe in threads and signal handlers."""
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
        else:
            self._stopped_at = time.monotonic() - KILL_AFTER

    def _on_signal(self, number: int, _frame: object) -> None:
        self._is_terminated = self._is_terminated or number == signal.SIGTERM
        self.stop()

    def __enter__(self) -> Self:
        binary.require()
        file_store.prepare()
        if self._changes_state:
            self._notes = [Note(text) for text in locks.recover(self.workspace.project, self.stack)]
        file_store.repair(self._name)
        pulumi, env = self._engine()
        if self.verb in ("up", "preview"):
            require_symphony(self.workspace, self.stack, python_of(self.workspace, env))
        self._handle_signals()
        try:
            self._start(pulumi, env)
        except BaseException:
            self._cleanup.close()
            self._restore_signals()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._outcome is None and self._process is not None:
                # The caller stopped reading: wait for the end of the engine, not for its events.
                self.stop()
                for _event in self:
                    pass
        finally:
            self._end()
            self._restore_signals()

    def __iter__(self) -> Iterator[Event]:
        yield from self._notes
        self._notes = []
        yield from self._events()
        if self.outcome.result == "failed" and not self._fetch_plugins and self._needs_plugins:
            self._fetch_plugins = True
            yield from self._again()
        if self.outcome.result == "failed" and checkpoints.were_needed(self._diagnostics):
            self._keeps_checkpoints = True
            yield from self._again()

    def _events(self) -> Iterator[Event]:
        process = self._process
        assert process is not None, "use `with Run(...) as run`"
        for line in self._lines(process):
            event = self._reader.parse(line, time.monotonic()) if line else Idle()
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
        self._start(*self._engine())
        yield RunRestarted()
        yield from self._events()

    def _engine(self) -> tuple[Path, dict[str, str]]:
        """Return the program of the engine, and its environment."""
        engine = binary.require()
        env = environment.for_engine(extra=self.extra, fetch_plugins=self._fetch_plugins)
        self._skips_checkpoints = (
            self._changes_state
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
            raise binary.not_started(pulumi, error.strerror) from error
        pipes = [pipe.fileno() for pipe in (self._process.stdout, self._process.stderr) if pipe is not None]
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__, str(self._process.pid), *map(str, pipes)],
            pass_fds=pipes,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _engine_command(self, pulumi: str, env: Mapping[str, str]) -> list[str]:
        # A new folder for each start of the engine, without the sockets of an earlier one.
        folder = files.own_folder(files.process_folder() / os.urandom(4).hex())
        self._cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        if self._program is not None:
            self._serve(self._program, folder)
        # A deletion runs no program, but the engine asks its server for plugins. Without a server it asks
        # Pulumi's language host, which makes a virtualenv that is missing.
        return engine_command(
            [pulumi, *self._arguments(), f"--client=unix:{folder / start.PROGRAM}"],
            folder,
            self.workspace,
            env,
            serves_program=self._program is None,
            skips_checkpoints=self._skips_checkpoints,
            namespace=not self._fetch_plugins and needs_no_network(self.workspace, self.stack, env),
        )

    def _serve(self, program: Callable[[], object], folder: Path) -> None:
        import grpc
        from pulumi import RunError
        from pulumi.runtime.proto import language_pb2_grpc

        from symphony.engine.run.program_host import OPTIONS, ProgramServer

        def run() -> None:
            try:
                program()
            except RunError:
                raise
            except BaseException as error:
                # It reaches the engine as one line instead of our traceback.
                raise RunError(str(error)) from error

        server: Any = grpc.server(ThreadPoolExecutor(max_workers=4), options=OPTIONS)
        self._cleanup.callback(server.stop, 0)
        language_pb2_grpc.add_LanguageRuntimeServicer_to_server(ProgramServer(str(folder), run), server)
        # A port could be dialed by every user of the machine; the folder is private.
        server.add_insecure_port(f"unix:{folder / start.PROGRAM}")
        server.start()

    def _arguments(self) -> list[str]:
        arguments = [self.verb, f"--stack={self.stack}", "--json", "--non-interactive", "--color=never"]
        if self._changes_state:
            arguments += ["--yes", "--skip-preview"]
        if self._program is not None:
            arguments.append("--exec-kind=auto.inline")
        return [*arguments, *self._options]

    def _lines(self, process: subprocess.Popen[bytes]) -> Iterator[bytes]:
        """Yield the lines of standard output, and an empty one after each tenth of a second without output.

        It also keeps the end of standard error, and watches the clock.
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
                        self._stderr = (self._stderr + chunk)[-_MOST_STDERR:]
                    else:
                        *lines, rest = (rest + chunk).split(b"\n")
                        yield from lines
                self._watch_clock(process)
        if rest:
            yield rest

    def _watch_clock(self, process: subprocess.Popen[bytes]) -> None:
        """Carry out stop(): interrupt the engine; kill all others after SAVE_AFTER, it after KILL_AFTER."""
        if self._stopped_at is None:
            return
        waited = time.monotonic() - self._stopped_at
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
        if self._changes_state:
            store.prune(self._name)
        code = process.returncode
        result: Result = "succeeded" if code == 0 else "failed"
        # An engine that is stopped before its first step ends with 0.
        if self._stopped_at is not None and (code != 0 or not (self._summary and self._summary.changes)):
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
            is_terminated=self._is_terminated,
        )

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            # It is not reaped yet, so the system has not reused its pid.
            watchdog.kill_session(process.pid)
            process.wait(timeout=10)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        self._cleanup.close()
        watching, self._watchdog = self._watchdog, None
        if watching is not None:
            try:
                watching.communicate(b"done", timeout=10)
            except subprocess.TimeoutExpired:
                watching.kill()
                watching.wait(timeout=10)

    def _handle_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._on_signal)
            elif number == signal.SIGINT:
                # A command that a shell starts with `&` ignores SIGINT, and its children inherit that. The
                # engine ends its plugins by SIGINT and would wait 5 s for each. A handler is not inherited.
                self._previous[number] = signal.signal(number, lambda _number, _frame: None)

    def _restore_signals(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, cast("signal.Handlers", handler))


def workspace_for(stack: str) -> Workspace:
    """Return the project of the folder a script runs in, else the hidden project `symphony`."""
    return workspaces.find() or workspaces.private_workspace(
        workspaces.DEFAULT_PROJECT, stack, main=Path.cwd()
    )


def engine_command(
    engine: Sequence[str],
    folder: Path,
    workspace: Workspace,
    env: Mapping[str, str],
    *,
    serves_program: bool,
    skips_checkpoints: bool,
    namespace: bool,
) -> list[str]:
    """Return the command that starts the engine and the processes that serve it.

    The private `folder` holds the sockets of this run, such as that of the project's program.
    """
    python = python_of(workspace, env)
    activated = _virtualenv_variables(workspace, python, env)
    project = workspace.program.parent
    program = [python, "-u", "-P", "-m", "symphony.engine.run.program_host", str(folder)]
    parameters: dict[str, Any] = {
        "folder": str(folder),
        "engine": list(engine),
        "program": {
            "command": [*program, "--skips-checkpoints"] if skips_checkpoints else program,
            "environment": activated,
            "folder": str(project),
        }
        if serves_program
        else None,
        "providers": {
            "command": [python, "-u", "-m", "symphony_dynamic.host", "--attached", str(folder)],
            "environment": {**activated, "PULUMI_PROJECT": workspace.project},
            "folder": str(project if project.is_dir() else workspace.folder),
        },
        "relay": [sys.executable, "-I", "-S", socket_relay.__file__, str(folder)],
        "namespace": namespace,
        # The program of a script runs in the script's own environment, which stays as it is.
        "relays": not serves_program and environment.has_proxy(env),
    }
    return [sys.executable, "-I", "-S", start.__file__, json.dumps(parameters)]


def needs_no_network(workspace: Workspace, stack: str, env: Mapping[str, str]) -> bool:
    """Return whether the engine of this stack may run without the network of the machine."""
    if sys.platform != "linux" or env.get(NETWORK) == "host" or not file_store.is_files():
        return False
    if workspaces.has_secrets_provider(workspace, stack):
        return False
    try:
        resources = file_store.read_state(file_store.StackName(workspace.project, stack)).resources
    except KeyError:
        # There is no state yet. A program that needs plugins fails, and runs again with the network.
        return True
    except SymphonyError:
        return False
    return all(resource.type.startswith(_LOCAL) for resource in resources)


def require_symphony(workspace: Workspace, stack: str, python: str) -> None:
    """Raise UserError if the interpreter of the project, which runs the program, has no symphony."""
    if workspace.virtualenv is None:
        return
    code = "import importlib.util, sys; sys.exit(not importlib.util.find_spec('symphony'))"
    if subprocess.run([python, "-P", "-c", code], timeout=60, check=False, capture_output=True).returncode:
        raise UserError(
            f"the Python that runs the program of {stack} cannot import symphony",
            where=str(workspace.folder / "Pulumi.yaml"),
            remedy="Install symphony in the virtualenv named there, or remove that line"
            " to use symphony's own Python",
        )


def python_of(workspace: Workspace, env: Mapping[str, str]) -> str:
    """Return the interpreter of the project; a deletion, which runs no program, works without it as well."""
    if workspace.virtualenv is not None:
        python = workspace.folder / workspace.virtualenv / "bin" / "python"
        return str(python) if python.exists() else sys.executable
    return shutil.which(env.get("PULUMI_PYTHON_CMD", sys.executable)) or sys.executable


def _virtualenv_variables(workspace: Workspace, python: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an activated virtualenv, if the project has one."""
    if workspace.virtualenv is None or python == sys.executable:
        return {}
    folder = Path(python).parent
    path = env.get("PATH", os.defpath)
    return {"PATH": f"{folder}{os.pathsep}{path}", "VIRTUAL_ENV": str(folder.parent)}


def _python() -> dict[str, str]:
    """Return the variables with which providers import the modules of this script."""
    folder = sys.path[0] if sys.path and sys.path[0] else str(Path.cwd())
    folders = filter(None, [folder, os.environ.get("PYTHONPATH", "")])
    return {"PULUMI_PYTHON_CMD": sys.executable, "PYTHONPATH": os.pathsep.join(folders)}


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the process has ended, without reaping it."""
    if process.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
