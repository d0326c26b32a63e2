"""Converts failures of the engine, a plugin or the program to errors with a line and a remedy."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from symphony import paths
from symphony.engine.run.events import Diagnostic, Outcome
from symphony.engine.state import file_store, locks
from symphony.errors import SymphonyError, UserError

_PLUGIN = re.compile(
    r"no (?:\w+ )?plugin 'pulumi-(?P<kind>\w+)-(?P<name>[\w-]+)'(?:.* at version v(?P<version>[\w.+-]+))?"
)
_IMAGE = "pulumi-python:dynamic/symphony_docker:Image"
_REMEDIES = (
    ("violates PodSecurity", "Set the config symphony:podSecurity restricted, or use another namespace"),
    ("exceeded quota", "Delete other experiments there, or ask for a higher quota"),
    ("is forbidden: User ", "Ask the cluster's administrator for the Role that `symphony rbac` prints"),
)
# Pulumi's Kubernetes plugin repeats it for each resource, and advises to delete them from the state.
UNREACHABLE_CLUSTER = re.compile("cluster is unreachable|unreachable cluster")
# The end of the plugin's words on a request that got no answer while it worked.
_NO_CONNECTION = re.compile(
    r'^\w+ "https?://[^"]+": .*(?:TLS handshake timeout|connection lost|i/o timeout|no route to host'
    r"|connection refused|connection reset by peer|deadline exceeded|EOF)"
)
_OF_KUBERNETES = re.compile(r"[:$]kubernetes:\w")
# The words of the plugin before those of the API server.
_PLUGIN_WORDS = re.compile(
    r'(?:creation of |update of )?resource "urn:[^"]+" [^:]*: '
    r'|the Kubernetes API server reported that "[^"]+" failed to fully initialize or become live: '
)
# The first line of several errors, each of which follows in a line of its own.
_SEVERAL = re.compile(r"\d+ errors? occurred:$")
_FULL = "no space left on device"
_NO_ANSWER = "error reading from server: EOF"
# Lines that only repeat that something failed.
_HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)')
_NAMED = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$", re.DOTALL)
_OURS = re.compile(r"^symphony(?:_\w+)?\.")
_NOT_THE_USERS = ("<frozen ", "pulumi-language-python-exec", "/site-packages/", "/dist-packages/")
_PACKAGES = (Path(__file__).parents[1],)
_ECHOES = ("update failed", "preview failed", "an unhandled error occurred: program exited")


@dataclass(frozen=True, slots=True)
class Traceback:
    """The last exception of a text.

    Attributes:
        name: The class, with its module unless that is builtins.
        text: The message, which may have several lines.
        frames: The lines that show the user's own code, outermost first.
        where: file:line of the innermost of them, if there is one.
    """

    name: str
    text: str
    frames: tuple[str, ...]
    where: str

    @property
    def is_ours(self) -> bool:
        """Return whether symphony or a provider raised the error intentionally."""
        return bool(_OURS.match(self.name))

    @property
    def short(self) -> str:
        name = self.name.rpartition(".")[2]
        return f"{name}: {self.text}" if self.text else name


class ProgramError(UserError):
    """The user's program failed; `details` are lines to show under the first: the user's own frames."""

    def __init__(
        self, what: str, *, where: str = "", remedy: str = "", details: tuple[str, ...] = ()
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.details = details


class ResourceError(SymphonyError):
    """Work on several resources failed; `details` holds a line for each but the first."""

    def __init__(self, first: SymphonyError, others: list[SymphonyError]) -> None:
        super().__init__(
            f"{first.what}, and {len(others)} more failed", where=first.where, remedy=first.remedy
        )
        self.details = tuple(f"  {error.where}: {error.what}" for error in others)


class Interrupted(SymphonyError):
    """The user stopped the run."""

    exit_code = 130


PathOf = Callable[[str], str]


def check(outcome: Outcome, path_of: PathOf | None = None) -> None:
    """Raise the error of a run unless it succeeded; path_of returns the process of a resource by its urn."""
    if outcome.result != "succeeded":
        raise error_of(outcome, path_of)


def error_of(outcome: Outcome, path_of: PathOf | None = None) -> SymphonyError:
    """Return the error of a run; path_of returns the process of a resource by its urn."""
    if outcome.result == "interrupted":
        verb = {"preview": "plan", "destroy": "delete"}.get(outcome.verb, outcome.verb)
        again = f"Run `symphony {verb} {outcome.stack}` to finish"
        remedy = "Nothing was changed" if outcome.verb == "preview" else again
        return Interrupted(f"{verb} of {outcome.stack} was interrupted", remedy=remedy)
    errors = [d for d in outcome.diagnostics if d.severity == "error"]
    if outcome.verb in ("up", "preview") and _is_program_gone([*(d.message for d in errors), outcome.stderr]):
        return ProgramError(f"the program of {outcome.stack} was killed")
    causes = [d for d in errors if not d.message.startswith(_ECHOES)]
    of_resources = [d for d in causes if d.urn]
    if of_resources:
        return _of_resources(of_resources, outcome, path_of or _name)
    if causes:
        return _of_program(causes[0].message, outcome)
    if errors:
        return _of_exit(errors[-1].message, outcome)
    return from_text(outcome.stderr, stack=outcome.stack, project=outcome.project)


def _is_program_gone(texts: list[str]) -> bool:
    """Return whether the engine only reports that the program no longer answers."""
    lines = [text.strip() for text in texts if text.strip()]
    return all(_NO_ANSWER in line and "\n" not in line for line in lines)


def from_text(text: str, *, stack: str, project: str = "") -> SymphonyError:
    """Return the error for the text that the command line wrote before the engine began to work."""
    plain = re.sub(r"^(error: )+", "", text.strip())
    known = _known(plain, stack, project)
    if known is not None:
        return known
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    what = lines[0].rstrip(".") if lines else "the Pulumi engine failed without a message"
    return SymphonyError(what, where=stack)


def _of_resources(diagnostics: list[Diagnostic], outcome: Outcome, path_of: PathOf) -> SymphonyError:
    """Return an error with the first failure, and a line for every other one."""
    errors = [_of_resource(diagnostic, outcome, path_of(diagnostic.urn)) for diagnostic in diagnostics]
    # The same cause stops many resources, such as a server that does not answer.
    distinct = list({(error.what, error.where): error for error in errors}.values())
    return distinct[0] if len(distinct) == 1 else ResourceError(distinct[0], distinct[1:])


def _of_resource(diagnostic: Diagnostic, outcome: Outcome, path: str) -> SymphonyError:
    message = diagnostic.message
    if _OF_KUBERNETES.search(diagnostic.urn) and _NO_CONNECTION.search(_first_line(message)):
        return _unreachable(outcome.stack)
    trace = find_traceback(message)
    if trace is not None and trace.is_ours:
        kind = UserError if trace.name.endswith("UserError") else SymphonyError
        return kind(trace.text.rstrip("."), where=path)
    if trace is not None and _FULL in trace.short.lower():
        return _full_disk(str(paths.home()))
    if trace is not None:
        return SymphonyError(f"its provider failed: {trace.short}", where=path, remedy="See all with --debug")
    if known := _known(message, outcome.stack, outcome.project):
        return known
    is_image = _IMAGE in diagnostic.urn
    remedy = next((remedy for words, remedy in _REMEDIES if words in message), "")
    error = SymphonyError(_first_line(message), where="" if is_image else path, remedy=remedy)
    if is_image:
        # The last lines of the step that failed.
        error.details = tuple(f"    | {line}" for line in message.strip().splitlines()[1:])
    return error


def _of_program(message: str, outcome: Outcome) -> SymphonyError:
    """Return the error that the user's program raised; one of another kind than symphony's with its line."""
    trace = find_traceback(message)
    if trace is None:
        known = _known(message, outcome.stack, outcome.project)
        first, *rest = message.strip().splitlines()
        return known or ProgramError(first.rstrip("."), details=tuple(rest))
    if trace.is_ours:
        first, *rest = trace.text.splitlines() or [trace.short]
        return ProgramError(first.rstrip("."), details=tuple(rest))
    if trace.name == "bdb.BdbQuit":
        return ProgramError(
            "breakpoint() has no terminal: Pulumi runs the program",
            where=_relative(trace.where, outcome.folder),
            remedy="Write `import debugpy; debugpy.listen(5678); debugpy.wait_for_client()` in its place,"
            " and attach your editor to port 5678",
        )
    if trace.name in ("SyntaxError", "IndentationError", "TabError") and trace.where:
        where = _relative(trace.where, outcome.folder)
        return ProgramError(f"{where}: {trace.text.rstrip('.')}", details=trace.frames)
    return ProgramError(
        f"the program failed: {_first_line(trace.short)}",
        where=_relative(trace.where, outcome.folder),
        details=trace.frames,
    )


def _of_exit(message: str, outcome: Outcome) -> SymphonyError:
    match = re.search(r"non-zero exit code: (-?\d+)", message)
    if match is None:
        return SymphonyError(_first_line(message), where=outcome.stack)
    spoken = [d.message for d in outcome.diagnostics if d.severity.startswith("info")]
    lines = "\n".join(spoken).splitlines()
    more = "" if lines else " without a message"
    how = "was killed" if match[1] == "-1" else f"exited with {match[1]}{more}"
    return ProgramError(f"the program of {outcome.stack} {how}")


def _known(text: str, stack: str, project: str) -> SymphonyError | None:
    """Return the error of a known failure, which has a remedy."""
    if "incorrect passphrase" in text or "message authentication failed" in text:
        return UserError(
            f"this passphrase does not open the secrets of {stack}",
            where=f"Pulumi.{stack}.yaml",
            remedy="Set PULUMI_CONFIG_PASSPHRASE to the one the stack was made with. If nothing in that file"
            " is encrypted, remove its line `encryptionsalt`, which is of another passphrase",
        )
    if "passphrase must be set" in text:
        return UserError(
            f"the secrets of {stack} need a passphrase",
            remedy="Set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE",
        )
    if "is currently locked by" in text:
        return _locked(text, stack)
    if match := _PLUGIN.search(text):
        return _no_plugin(match["kind"], match["name"], match["version"])
    if match := re.search(r"Missing required (?:configuration variable|secret.*?) '([^']+)'", text):
        return UserError(
            f"the program needs the setting {match[1]}",
            where=f"Pulumi.{stack}.yaml",
            remedy=f"Add `{match[1]}: VALUE` under `config:` in that file",
        )
    if match := re.search(r"no stack named '([^']+)' found", text):
        return UserError(f"the stack {match[1]} does not exist", remedy="`symphony ls` lists the experiments")
    if UNREACHABLE_CLUSTER.search(text):
        return _unreachable(stack)
    if "failed to load checkpoint" in text:
        return _damaged(stack, project)
    if "This is a bug!" in text:
        return _bug_of_the_engine(text, stack)
    if _FULL in text:
        return _full_disk(str(file_store.root()) if file_store.is_files() else "")
    if match := re.search(r"(\S+): (permission denied|read-only file system)", text):
        is_mount = match[2] == "read-only file system"
        remedy = (
            "Mount that folder writable, or copy the project to another folder"
            if is_mount
            else "Take ownership of that file (chown)"
        )
        return SymphonyError(match[2], where=match[1].removeprefix("file://"), remedy=remedy)
    return None


def _full_disk(where: str) -> SymphonyError:
    return SymphonyError(
        "the disk is full",
        where=where,
        remedy="Free some space there, and run the command again; the recorded state is intact",
    )


def _unreachable(stack: str) -> SymphonyError:
    return SymphonyError(
        f"the Kubernetes cluster of {stack} does not answer",
        remedy="Run this command again once the cluster answers; the experiment may still be running",
    )


def _locked(text: str, stack: str) -> SymphonyError:
    match = re.search(r"created by (\S+)@(\S+) \(pid (\d+)\) at (\S+)", text)
    if match is None:
        return locks.Held(f"{stack} is being changed by another run", remedy="Wait until that run has ended")
    since = datetime.fromisoformat(match[4]).timestamp()
    return locks.held(stack, locks.Lock(Path(), int(match[3]), match[1], match[2], since))


def _no_plugin(kind: str, name: str, version: str | None) -> SymphonyError:
    wanted = f" {version}" if version else ""
    return SymphonyError(
        f"the Pulumi plugin {name}{wanted} is not installed",
        remedy=f"Run `pulumi plugin install {kind} {name}{wanted}`",
    )


def _damaged(stack: str, project: str) -> SymphonyError:
    """Return the error of a state that the engine cannot load; reading a file tells more."""
    name = file_store.StackName(project, stack)
    where = paths.store_url()
    if file_store.is_files():
        try:
            file_store.read(name)
        except SymphonyError as error:
            return error
        except KeyError:
            pass
        where = str(file_store.root() / "stacks" / name.project / f"{name.stack}.json")
    return SymphonyError(
        f"the engine cannot load the state of {stack}",
        where=where,
        remedy=f"`pulumi stack export --stack={name}` shows why",
    )


def _bug_of_the_engine(text: str, stack: str) -> SymphonyError:
    """Return the reason in a report that the engine writes for its authors."""
    match = re.search(r"^(?:Error|Panic):\s+(.+)", text, re.MULTILINE)
    reason = match[1].strip() if match else _first_line(text)
    if "snapshot integrity" in text:
        return SymphonyError(
            f"the state of {stack} is inconsistent: {reason.rpartition('refusing to use it: ')[2]}",
            where=paths.store_url(),
            remedy=f'Run `eval "$(symphony env)"; pulumi state repair --stack={stack}`',
        )
    return SymphonyError(
        f"the Pulumi CLI crashed: {reason}",
        where=stack,
        remedy="Run the command again; `symphony doctor` shows the version of Pulumi",
    )


def _name(urn: str) -> str:
    return urn.rpartition("::")[2]


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and _SEVERAL.search(lines[0]):
        lines = [line.removeprefix("* ") for line in lines[1:]]
    return _PLUGIN_WORDS.sub("", lines[0], count=1).rstrip(".") if lines else "no reason given"


def _relative(place: str, folder: Path) -> str:
    return place.removeprefix(f"{folder}/")


def find_traceback(message: str) -> Traceback | None:
    """Return the last traceback in a message, if there is one."""
    _, head, text = message.rpartition(_HEAD)
    if not head:
        return None
    blocks: list[list[str]] = []
    ending: list[str] = []
    for line in text.strip("\n").splitlines():
        if _FRAME.match(line):
            blocks.append([line])
        elif blocks and line.startswith("  ") and not ending:
            blocks[-1].append(line)
        else:
            ending.append(line)
    own = [block for block in blocks if _is_users(block[0])]
    match = _NAMED.match("\n".join(ending).strip())
    return Traceback(
        name=match["name"] if match else "error",
        text=((match["text"] or "") if match else "\n".join(ending)).strip(),
        frames=tuple(line for block in own for line in block),
        where=_place(own[-1][0]) if own else "",
    )


def _is_users(frame: str) -> bool:
    match = _FRAME.match(frame)
    file = match["file"] if match else ""
    library = sysconfig.get_path("stdlib")
    if any(part in file for part in _NOT_THE_USERS) or file.startswith(f"{library}/"):
        return False
    return not any(file.startswith(f"{package}/") for package in _PACKAGES)


def _place(frame: str) -> str:
    match = _FRAME.match(frame)
    return f"{match['file']}:{match['line']}" if match else ""
