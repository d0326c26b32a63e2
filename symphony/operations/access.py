"""Access to the processes of an experiment: exec, ssh, scp, visit."""

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from symphony.backends.access import Access, Copied, OnBytes, ServiceRoute, Streams
from symphony.backends.observe import Recorded
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.plan.names import quoted

# `learner:/data`, `agents/agent_0:runs`; a path that begins with . or / is a local path.
_REMOTE = re.compile(r"([^./~:][^/:]*(?:/[^./:][^/:]*)?):(.*)", re.DOTALL)


class Sides(NamedTuple):
    """The two sides of a copy: a path in a process and a path on this machine."""

    process: str
    remote: str
    local: str
    sends: bool


def _process(stack: stacks.Stack, word: str) -> tuple[Access, Recorded, str]:
    stack, recorded = stacks.running(stack)
    return stack.on().access, recorded, stacks.match(word, recorded.processes, "process")


def execute(stack: stacks.Stack, process: str, command: Sequence[str], streams: Streams) -> int:
    """Run a command in a process and return its exit code.

    Raises:
        UserError: The process or the command is missing.
        CannotStart: The process has no such command.
    """
    access, recorded, path = _process(stack, process)
    if not command or not command[0]:
        remedy = f"Add it after --, as in `symphony exec {stack.display_name} {path} -- env`"
        raise UserError("exec needs a command to run", where=path, remedy=remedy)
    return access.execute(recorded, path, command, streams)


def login(stack: stacks.Stack, process: str, streams: Streams) -> int:
    """Attach the user to a process's window, or run a shell beside it; return the exit code.

    Raises:
        UserError: The process does not exist.
    """
    access, recorded, path = _process(stack, process)
    return access.shell(recorded, path, streams)


def parse_sides(source: str, target: str) -> Sides:
    """Return the two sides of a copy; raise UserError unless exactly one is in a process."""
    if not source or not target:
        what = "the source or the target is an empty path"
        raise UserError(what, remedy="Name both, as in `symphony scp a.txt learner:/tmp`")
    from_process, to_process = _REMOTE.fullmatch(source), _REMOTE.fullmatch(target)
    if from_process is not None and to_process is None:
        return Sides(from_process[1], from_process[2], target, sends=False)
    if to_process is not None and from_process is None:
        return Sides(to_process[1], to_process[2], source, sends=True)
    problem = "both are paths in processes" if from_process else "neither is a path in a process"
    raise UserError(
        f"{quoted(source)} and {quoted(target)}: {problem}",
        remedy="Write one as PROCESS:PATH, the other as a local path; ./a:b is a local file",
    )


def copy(stack: stacks.Stack, sides: Sides, on_bytes: OnBytes = lambda _: None) -> Copied:
    """Copy between a process and this machine; in an existing folder the copy keeps its name.

    `on_bytes` is called with the size of each piece.

    Raises:
        UserError: The process, file or folder does not exist.
    """
    access, recorded, path = _process(stack, sides.process)
    if sides.sends:
        source = Path(os.path.abspath(sides.local))  # noqa: PTH100 - a link keeps its own name
        return access.send(recorded, path, source, sides.remote, on_bytes)
    name = PurePosixPath(sides.remote).name
    from symphony.backends.copying import final_name  # imports tarfile, which only fetching needs

    target = final_name(sides.local, name if name not in ("", "..") else path.rpartition("/")[2])
    return access.fetch(recorded, path, sides.remote, target, on_bytes)


def service(stack: stacks.Stack, word: str | None) -> str:
    """Return the service that a name refers to; without a name, the only exposed one, else the only one.

    Raises:
        UserError: The experiment is not up, or no service or several match.
    """
    if stack.recorded is None:
        raise stack.not_up()
    services = stacks.services(stack)
    known = [service["name"] for service in services]
    if word is not None:
        return stacks.match(word, known, "service")
    exposed = [service["name"] for service in services if service["exposed"]]
    for candidates in (exposed, known):
        if len(candidates) == 1:
            return candidates[0]
    if not known:
        raise UserError(f"{stack.display_name} has no services", remedy="Declare one with binds= or exposes=")
    what = f"{stack.display_name} has several services"
    raise UserError(what, remedy=f"Name one of: {', '.join(exposed or sorted(known))}")


def route(stack: stacks.Stack, name: str) -> ServiceRoute:
    """Return the route from this machine to a service of an experiment that is up."""
    stack, recorded = stacks.running(stack)
    return stack.on().access.route(recorded, name, stacks.addresses(stack)[name])


def external_address(stack: stacks.Stack, word: str) -> str:
    """Return the host:port of a service from outside; raise UserError if it can only be forwarded."""
    name = service(stack, word)
    if address := route(stack, name).address:
        return address
    raise UserError(
        f"{name} of {stack.display_name} has no address outside of its cluster",
        remedy=f"`symphony visit {stack.display_name} {name}` forwards a port;"
        " the setting symphony:expose gives an address to a service declared with exposes=",
    )
