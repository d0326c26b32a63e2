"""The tmux backend's `access`: runs commands beside processes, shows windows, finds services."""

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from symphony.backends.access import CannotStart, ServiceRoute, Streams
from symphony.backends.local_folder import fetch as fetch
from symphony.backends.local_folder import send as send
from symphony.backends.local_folder import start_folder
from symphony.backends.observe import Recorded
from symphony.errors import SymphonyError, UserError
from symphony.paths import tmux_socket
from symphony.plan.names import quoted
from symphony_tmux import names
from symphony_tmux.processes import observe
from symphony_tmux.tmux import client

_DEADLINE = 10.0
# The preamble is shell text. Its output goes to stderr, so that stdout is the command's alone. A failing line
# ends it, but not a line within a function or a sourced file.
_BEFORE_PREAMBLE = r"""exec 9>&1 >&2
trap '_symphony_code=$?; [[ ${#BASH_SOURCE[@]} != 0 ]] || {
echo "symphony: \"$BASH_COMMAND\" of preamble_cmds failed with exit $_symphony_code"
exit $_symphony_code; }' ERR
"""
_AFTER_PREAMBLE = '\ntrap - ERR\nexec >&9 9>&-\nexec "$@"\n'


def execute(recorded: Recorded, path: str, words: Sequence[str], streams: Streams) -> int:
    """Run a command in the process's folder, with its variables, after its preamble."""
    # Imported here: only `exec` needs it.
    from symphony_tmux.processes import launch_file

    process = recorded.processes[path]
    command = [*words]
    if preamble := process.get("preamble"):
        script = _BEFORE_PREAMBLE + "\n".join(preamble) + _AFTER_PREAMBLE
        command = [launch_file.bash(), "-c", script, "symphony", *words]
    return _run(command, start_folder(path, process), _variables(path, process), streams)


def shell(recorded: Recorded, path: str, streams: Streams) -> int:
    """Show the window of the process in this terminal.

    Raises:
        UserError: There is no terminal.
    """
    process = recorded.processes[path]
    if not streams.terminal:
        raise UserError("this command needs a terminal", remedy="Use `symphony exec`, which needs none")
    server = str(process["server"])
    pane = observe.condition(process, client.list_panes(server)).pane
    if pane is None:
        raise SymphonyError(f"the window of {path} is gone", remedy="`symphony restart` starts it again")
    window = f"{pane.session_id}:{pane.window_id}"
    if _is_in(server):
        client.run(server, ["switch-client", "-t", window])
        return 0
    if os.environ.get("TMUX"):
        return _switch(client.command(server, ["attach-session", "-t", window]))
    return _run(client.command(server, ["attach-session", "-t", window]), Path.cwd(), os.environ, streams)


def route(recorded: Recorded, service: str, address: str) -> ServiceRoute:
    """Return the address on this machine, with a warning if no process of the experiment listens there."""
    # Imported here: only `visit` needs it.
    from symphony_tmux.listeners import Listeners

    port, listeners = int(address.rpartition(":")[2]), Listeners(recorded.owner)
    if stranger := listeners.stranger(port):
        return ServiceRoute(
            address, warning=f"port {port} of {service} is in use by another program ({stranger})"
        )
    warning = "" if listeners.is_listening(port) else f"nothing listens on port {port} of {service}"
    return ServiceRoute(address, warning=warning)


def _variables(path: str, process: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a process with its marker, so that the command ends with the process."""
    from symphony_tmux import variables
    from symphony_tmux.processes import launch_file
    from symphony_tmux.processes.environment import environment

    marker = names.marker(str(process["owner"]), path, int(process["attempt"]))
    server, session = str(process["server"]), str(process["session"])
    services = variables.read_services(server, session) | dict(process.get("services") or {})
    secrets = variables.read(names.process_folder(server, session, path) / variables.SECRETS)
    declared: dict[str, str] = {**secrets, **(process.get("env") or {})}
    inherit: Sequence[str] = process.get("inherit") or ()
    env = environment(launch_file.caller(), inherit, services, declared, marker)
    return {os.fsdecode(name): os.fsdecode(text) for name, text in env.items()}


def _is_in(server: str) -> bool:
    """Return whether this terminal is a client of that tmux server."""
    socket = os.environ.get("TMUX", "").partition(",")[0]
    return bool(socket) and os.path.realpath(socket) == os.path.realpath(tmux_socket(server))


def _switch(words: Sequence[str]) -> int:
    """Attach the client of another tmux server to symphony's; it returns to its server on detach."""
    socket = os.environ["TMUX"].partition(",")[0]
    users_tmux = ["tmux", "-S", socket]
    try:
        session = subprocess.run(
            [*users_tmux, "display-message", "-p", "#{session_id}"],
            capture_output=True,
            text=True,
            timeout=_DEADLINE,
            check=True,
        ).stdout.strip()
        back = [*users_tmux, "attach-session", "-t", session]
        script = f"{shlex.join(words)}; exec {shlex.join(back)}"
        subprocess.run([*users_tmux, "detach-client", "-E", script], timeout=_DEADLINE, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SymphonyError(
            "your tmux session cannot be switched to the process's window",
            where=socket,
            remedy="Detach from tmux, and run the command again",
        ) from error
    return 0


def _run(words: Sequence[str], folder: Path, variables: Mapping[str, str], streams: Streams) -> int:
    """Run a child to its end and return its exit code, 128 + n for signal n."""
    if any("\0" in word for word in words):
        remedy = "Remove it: arguments cannot contain NUL"
        raise UserError("the command for exec contains a NUL byte", remedy=remedy)
    # At a terminal the child stays in this process group, which may read the terminal. Otherwise it gets a
    # group, so that signals reach all its children.
    own_group = not os.isatty(streams.stdin)
    with _forward_signals(own_group) as register_child:
        try:
            child = subprocess.Popen(
                words,
                cwd=folder,
                env=variables,
                stdin=streams.stdin,
                stdout=streams.stdout,
                stderr=streams.stderr,
                process_group=0 if own_group else None,
            )
        except FileNotFoundError:
            what = f"command {quoted(words[0])} does not exist, or is not on the PATH of the process"
            raise CannotStart(
                127, what, remedy="Check the spelling of the command, or give its path"
            ) from None
        except OSError as error:
            raise CannotStart(126, f"{quoted(words[0])} cannot be run: {error.strerror}") from error
        register_child(child)
        code = child.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _forward_signals(own_group: bool) -> Generator[Callable[[subprocess.Popen[bytes]], None]]:
    """Forward signals to the child during the block, except those it gets from the terminal itself.

    Handlers are set, not SIG_IGN, because a child inherits ignored signals but no handlers.
    """
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        if not children:
            early.append(number)
        for child in children:
            if own_group:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, number)
            elif number not in (signal.SIGINT, signal.SIGQUIT):
                child.send_signal(number)

    def register_child(child: subprocess.Popen[bytes]) -> None:
        children.append(child)
        for number in early:
            forward(number, None)

    with ExitStack() as handlers:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
                handlers.callback(signal.signal, number, signal.signal(number, forward))
        yield register_child
