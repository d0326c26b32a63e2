"""A project and a home for one test, in which it runs the real `symphony` and `pulumi`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import libtmux
import psutil
import yaml

from symphony.engine import binary

ROOT = Path(__file__).parent.parent
SYMPHONY = Path(sys.executable).with_name("symphony")
PATIENCE = 60.0
_NOT_OURS = ("SYMPHONY_", "PULUMI_", "XDG_STATE_HOME", "TMUX", "NO_COLOR", "FORCE_COLOR")


@dataclass(frozen=True)
class Ran:
    """One command that has ended."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __str__(self) -> str:
        return f"exit {self.code} after {self.seconds:.1f} s\n{self.out}\n{self.err}"


class Sandbox:
    """Runs commands in one project; each must end in time and show no traceback."""

    def __init__(self, place: Path, project: str = "sandbox", folder: Path | None = None) -> None:
        self.home = place / "home"
        self.folder = folder or place / "project"
        self.project = project
        self.program = SYMPHONY
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_OURS)}
        self.environment = {
            **kept,
            "SYMPHONY_HOME": str(self.home),
            "PULUMI_HOME": str(place / "pulumi-home"),
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "LANG": "C.UTF-8",
        }
        if folder is None:
            self.folder.mkdir(parents=True)
            (self.folder / "Pulumi.yaml").write_text(f"name: {project}\nruntime: python\n")

    def write(self, program: str, file: str = "__main__.py") -> None:
        """Write the program that the next `up` runs; Experiment needs no import in it."""
        (self.folder / file).write_text(f"from symphony import Experiment\n{program}\n")

    def config(self, stack: str, **settings: str) -> None:
        """Write settings of a stack; `namespace="x"` is symphony:namespace."""
        file = self.folder / f"Pulumi.{stack}.yaml"
        raw = yaml.safe_load(file.read_text()) if file.exists() else {}
        own = {key if ":" in key else f"symphony:{key}": value for key, value in settings.items()}
        file.write_text(yaml.safe_dump({**raw, "config": {**raw.get("config", {}), **own}}))

    def symphony(self, *words: str, code: int | None = 0, **more: Any) -> Ran:
        """Run `symphony ...` to its end; code is the exit code it must have, None any."""
        return self.run([str(self.program), *words], code=code, **more)

    def pulumi(self, *words: str, code: int | None = 0, **more: Any) -> Ran:
        """Run a plain `pulumi ...` with the exports of `symphony env`, as a person would."""
        engine = [shutil.which("pulumi", path=self.exports["PATH"]) or "pulumi", *words]
        return self.run([*engine, "--non-interactive", "--color=never"], code=code, env=self.exports, **more)

    @cached_property
    def exports(self) -> dict[str, str]:
        """Return the exports of `symphony env`, which are the same for the whole test."""
        return self.symphony("env", "--json").json

    def python(self, script: str, *, code: int | None = 0, **more: Any) -> Ran:
        """Run a plain script, as `python script.py`."""
        return self.run([sys.executable, "-c", script], code=code, **more)

    def run(
        self,
        command: list[str],
        *,
        code: int | None = 0,
        timeout: float = PATIENCE,
        env: Mapping[str, str | None] | None = None,
        **more: Any,
    ) -> Ran:
        began = time.monotonic()
        process = self.start(command, env=env, **more)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{command} did not end within {timeout} s\n{out}\n{err}") from None
        ran = Ran(process.returncode, out or "", err or "", time.monotonic() - began)
        assert "Traceback" not in ran.out + ran.err, str(ran)
        assert code is None or ran.code == code, f"{command}: {ran}"
        return ran

    def start(
        self, command: list[str], *, env: Mapping[str, str | None] | None = None, **more: Any
    ) -> subprocess.Popen[str]:
        """Start a command; a variable that is None is removed from its environment."""
        variables = {**self.environment, **(env or {})}
        options: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": self.folder,
            **more,
        }
        return subprocess.Popen(
            command,
            env={name: value for name, value in variables.items() if value is not None},
            text=True,
            errors="replace",
            **options,
        )

    def processes(self, stack: str, **more: Any) -> dict[str, dict[str, Any]]:
        """Return the statuses of `symphony process --json`, by path."""
        return {each["path"]: each for each in self.symphony("process", stack, "--json", **more).json}

    def planned(self, stack: str) -> set[str]:
        """Return the paths of the processes that `symphony plan` shows."""
        return {each["path"] for each in self.symphony("plan", stack, "--json").json["plan"]["processes"]}

    def stacks(self) -> set[str]:
        """Return the stacks in the store of this sandbox."""
        files = (self.home / "state" / ".pulumi" / "stacks").glob("*/*.json")
        return {f"{file.parent.name}/{file.stem}" for file in files}

    def tmux(self, server: str = "default") -> libtmux.Server:
        """Return the tmux server through libtmux, not through symphony's client."""
        return tmux_in(self.home, server)

    def trees(self) -> dict[str, list[int]]:
        """Return stack/path -> the pids of live processes of this sandbox, by their environment markers."""
        trees: dict[str, list[int]] = {}
        for pid, variables in self._own_processes():
            if (marker := variables.get("SYMPHONY_ID")) is not None:
                # PROJECT/STACK#STORE/PATH/ATTEMPT, as symphony_tmux.names.marker writes it.
                owner, _, rest = marker.partition("#")
                path = rest.partition("/")[2].rpartition("/")[0]
                trees.setdefault(f"{owner.rpartition('/')[2]}/{path}", []).append(pid)
        return trees

    def supervisor(self, stack: str) -> psutil.Process | None:
        """Return the supervisor process of an experiment in tmux, or None."""
        tree = self.trees().get(f"{stack}/symphony", [])
        with suppress(psutil.NoSuchProcess):
            below = [process for process in map(psutil.Process, tree) if process.ppid() in tree]
            return below[0] if below else None
        return None

    def servers(self) -> list[int]:
        """Return the tmux servers whose sockets are in the home of this sandbox."""
        pids: list[int] = []
        for process in psutil.process_iter(["name", "cmdline"]):
            command = " ".join(process.info["cmdline"] or ())
            if "tmux" in command and str(self.home) in command and "server" in (process.info["name"] or ""):
                pids.append(process.pid)
        return pids

    def engines(self) -> list[int]:
        """Return the processes of engine runs of this sandbox: command lines, engines, plugins, programs."""
        return [pid for pid, variables in self._own_processes() if "SYMPHONY_ID" not in variables]

    def close(self) -> None:
        """End the processes that a test left, by their ids."""
        for pid in [*self.engines(), *self.servers(), *chain(*self.trees().values())]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        wait_for(lambda: not (self.engines() or self.servers() or self.trees()), 20, "all is ended")

    def _own_processes(self) -> Iterator[tuple[int, dict[str, str]]]:
        home = os.fsencode(self.home)
        store = _home_marker(self.home)
        for folder in os.scandir("/proc"):
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            try:
                raw = Path(folder.path, "environ").read_bytes()
                if home not in raw and store not in raw:
                    continue
                state = Path(folder.path, "stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            pairs = [part.partition("=") for part in raw.decode(errors="replace").split("\0")]
            variables = {name: value for name, _, value in pairs}
            is_marked = f"#{store.decode()}/" in variables.get("SYMPHONY_ID", "")
            if state not in (b"Z", b"X") and (is_marked or variables.get("SYMPHONY_HOME") == str(self.home)):
                yield int(folder.name), variables


def tmux_in(home: Path, server: str = "default") -> libtmux.Server:
    """Return a tmux server of a home, as libtmux sees it."""
    return libtmux.Server(socket_path=home / "tmux" / f"{server}.sock")


def _home_marker(home: Path) -> bytes:
    from symphony import paths

    state = f"file://{home / 'state'}"
    with suppress(FileNotFoundError):
        return (home / "stores" / paths.store_id(state)).read_bytes().strip()
    return paths.store_id(state).encode()


def wait_for(condition: Callable[[], Any], seconds: float, what: str, pause: float = 0.05) -> Any:
    """Call the condition until it returns a true value, and return that; fail after the timeout.

    It pauses twice as long as a call takes, at least: other tests that run meanwhile need the processor too.
    """
    deadline = time.monotonic() + seconds
    began = time.monotonic()
    while not (answer := condition()):
        now = time.monotonic()
        assert now < deadline, f"{what}: not within {seconds} s"
        time.sleep(max(pause, 2 * (now - began)))
        began = time.monotonic()
    return answer


@contextmanager
def sandbox_in(place: Path, project: str = "sandbox", folder: Path | None = None) -> Iterator[Sandbox]:
    """Yield a sandbox that leaves nothing running."""
    assert binary.find() is not None, "the Pulumi engine is not on this machine: run `make setup`"
    sandbox = Sandbox(place, project, folder)
    try:
        yield sandbox
    finally:
        sandbox.close()


def clone_in(folder: Path) -> Path:
    """Copy the root project, as a clone has it, into this folder."""
    clone = folder / "clone"
    for part in ("caraml", "examples", "stacks"):
        shutil.copytree(ROOT / part, clone / part, ignore=shutil.ignore_patterns("__pycache__", "Pulumi.*"))
    for part in (".dockerignore", "Pulumi.yaml", "__main__.py"):
        shutil.copy(ROOT / part, clone / part)
    (clone / ".venv").symlink_to(ROOT / ".venv")
    return clone


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail if the block hangs."""

    def late(*_: object) -> None:
        raise AssertionError("it waits for what a process has put there")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
