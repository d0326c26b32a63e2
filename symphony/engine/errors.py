"""Turns what engine, plugin or program says about a failure into one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from symphony import paths
from symphony.engine import tracebacks
from symphony.engine.run.events import Diagnostic
from symphony.engine.run.outcome import Outcome
from symphony.engine.state import file_store, locks
from symphony.errors import SymphonyError, UserError

_PLUGIN = re.compile(
    r"no (?:\w+ )?plugin 'pulumi-(?P<kind>\w+)-(?P<name>[\w-]+)'(?:.* at version v(?P<version>[\w.+-]+))?"
)
_IMAGE = "pulumi-python:dynamic/symphony_docker:Image"
_REMEDIES = (
    ("violates PodSecurity", "Set the config symphony:podSecurity restricted, or use another namespace"),
    ("exceeded quota", "End something there, or have the quota raised"),
    ("is forbidden: User ", "Ask the cluster's administrator for the Role that `symphony rbac` prints"),
)
# Pulumi's Kubernetes plugin says so for each resource, and advises to have them deleted from the state.
UNREACHABLE_CLUSTER = re.compile("cluster is unreachable|unreachable cluster")
# What it writes before the API server's own words.
_PLUGIN_WORDS = re.compile(
    r'(?:creation of |update of )?resource "urn:[^"]+" [^:]*: '
    r'|the Kubernetes API server reported that "[^"]+" failed to fully initialize or become live: '
)
# The first line of several errors in one; each follows in a line of its own.
_SEVERAL = re.compile(r"\d+ errors? occurred:$")
_NO_ANSWER = "error reading from server: EOF"
# Lines that only repeat that something failed.
_ECHOES = ("update failed", "preview failed", "an unhandled error occurred: program exited")


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
    """Return when the run did what it was asked, else raise the one line that says why not."""
    if outcome.result != "succeeded":
        raise error_of(outcome, path_of)


def error_of(outcome: Outcome, path_of: PathOf | None = None) -> SymphonyError:
    """The error of a run; path_of turns the urn of a resource into what the user calls it."""
    if outcome.result == "interrupted":
        again = "Nothing was changed" if outcome.verb == "preview" else f"`{_command(outcome)}` finishes it"
        return Interrupted(f"{_run_name(outcome)} was interrupted", remedy=again)
    errors = [d for d in outcome.diagnostics if d.severity == "error"]
    if outcome.verb in ("up", "preview") and _is_program_gone([*(d.message for d in errors), outcome.stderr]):
        return ProgramError(f"the program of {outcome.stack} was killed")
    spoken = [d for d in errors if not d.message.startswith(_ECHOES)]
    of_resources = [d for d in spoken if d.urn]
    if of_resources:
        return _of_resources(of_resources, outcome, path_of or _name)
    if spoken:
        return _of_program(spoken[0].message, outcome)
    if errors:
        return _of_exit(errors[-1].message, outcome)
    return from_text(outcome.stderr, stack=outcome.stack, project=outcome.project)


def _is_program_gone(texts: list[str]) -> bool:
    """Return whether the engine says no more than that the program does not answer any more."""
    said = [text.strip() for text in texts if text.strip()]
    return all(_NO_ANSWER in text and text.count("\n") == 0 for text in said)


def _command(outcome: Outcome) -> str:
    """What a person types for it."""
    names = {"up": "symphony up", "preview": "symphony plan", "destroy": "symphony delete"}
    return f"{names.get(outcome.verb, f'pulumi {outcome.verb}')} {outcome.stack}"


def _run_name(outcome: Outcome) -> str:
    """The run in the user's words: nobody types `destroy` or `preview`."""
    names = {"preview": "plan", "destroy": "delete"}
    return f"{names.get(outcome.verb, outcome.verb)} of {outcome.stack}"


def from_text(text: str, *, stack: str, project: str = "") -> SymphonyError:
    """The error for what the command line wrote before the engine began to work."""
    plain = re.sub(r"^(error: )+", "", text.strip())
    known = _known(plain, stack, project)
    if known is not None:
        return known
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    what = lines[0].rstrip(".") if lines else "the engine failed and gave no reason"
    return SymphonyError(what, where=stack)


def _of_resources(errors: list[Diagnostic], outcome: Outcome, path_of: PathOf) -> SymphonyError:
    """One line for the first resource that failed, one more for each other."""
    result = [_of_resource(error, outcome, path_of(error.urn)) for error in errors]
    # The same cause stops many resources, such as a server that does not answer.
    distinct = list({(error.what, error.where): error for error in result}.values())
    return distinct[0] if len(distinct) == 1 else ResourceError(distinct[0], distinct[1:])


def _of_resource(error: Diagnostic, outcome: Outcome, path: str) -> SymphonyError:
    trace = tracebacks.find(error.message)
    if trace is None:
        return _known(error.message, outcome.stack, outcome.project) or _in_lines(error, path)
    if trace.is_ours:
        kind = UserError if trace.name.endswith("UserError") else SymphonyError
        return kind(trace.text.rstrip("."), where=path)
    return SymphonyError(f"its provider failed: {trace.short}", where=path, remedy="See all with --debug")


def _in_lines(error: Diagnostic, path: str) -> SymphonyError:
    """What a resource says of itself; the step of an image that failed has its last lines under it."""
    built = _IMAGE in error.urn
    what = _first_line(error.message)
    result = SymphonyError(what, where="" if built else path, remedy=_remedy(error.message))
    if built:
        result.details = tuple(f"    | {line}" for line in error.message.strip().splitlines()[1:])
    return result


def _remedy(message: str) -> str:
    """What to do about what an API server refused."""
    return next((remedy for words, remedy in _REMEDIES if words in message), "")


def _of_program(message: str, outcome: Outcome) -> SymphonyError:
    """What the user's program raised: a RunError or an error of ours is its own text, others show where."""
    trace = tracebacks.find(message)
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
    more = "" if lines else " and said no more"
    how = "was killed" if match[1] == "-1" else f"ended with exit code {match[1]}{more}"
    return ProgramError(f"the program of {outcome.stack} {how}")


def _known(text: str, stack: str, project: str) -> SymphonyError | None:
    """The failures that have a remedy of their own."""
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
        return UserError(f"there is no stack {match[1]}", remedy="`symphony ls` lists those there are")
    if UNREACHABLE_CLUSTER.search(text):
        return SymphonyError(
            f"the Kubernetes cluster of {stack} does not answer",
            remedy="Run it again once `kubectl cluster-info` works: the experiment may still be running",
        )
    if "failed to load checkpoint" in text:
        return _damaged(stack, project)
    if "This is a bug!" in text:
        return _bug_of_the_engine(text, stack)
    if "no space left on device" in text:
        return SymphonyError(
            "the disk is full",
            where=str(file_store.root()) if file_store.is_files() else "",
            remedy="Make room there and run it again: what is recorded so far is whole",
        )
    if match := re.search(r"(\S+): (permission denied|read-only file system)", text):
        is_mount = match[2] == "read-only file system"
        remedy = "Mount it writable, or copy the project to another folder" if is_mount else "Make it yours"
        return SymphonyError(match[2], where=match[1].removeprefix("file://"), remedy=remedy)
    return None


def _locked(text: str, stack: str) -> SymphonyError:
    match = re.search(r"created by (\S+)@(\S+) \(pid (\d+)\) at (\S+)", text)
    if match is None:
        return locks.Held(f"{stack} is being changed by someone else", remedy="Wait for it to end")
    since = datetime.fromisoformat(match[4]).timestamp()
    return locks.held(
        stack, locks.Lock(Path(), file_store.StackName("", stack), int(match[3]), match[1], match[2], since)
    )


def _no_plugin(kind: str, name: str, version: str | None) -> SymphonyError:
    wanted = f" {version}" if version else ""
    return SymphonyError(
        f"the Pulumi plugin {name}{wanted} is not on this machine",
        remedy=f"Run `pulumi plugin install {kind} {name}{wanted}`",
    )


def _damaged(stack: str, project: str) -> SymphonyError:
    """What our own reading of a file says, for that names the copy; of a bucket the engine has said all."""
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
        remedy=f"`pulumi stack export --stack={name}` says why",
    )


def _bug_of_the_engine(text: str, stack: str) -> SymphonyError:
    """What it says in a page for its authors."""
    match = re.search(r"^(?:Error|Panic):\s+(.+)", text, re.MULTILINE)
    reason = match[1].strip() if match else _first_line(text)
    if "snapshot integrity" in text:
        return SymphonyError(
            f"the state of {stack} is inconsistent: {reason.rpartition('refusing to use it: ')[2]}",
            where=paths.store_url(),
            remedy=f'`eval "$(symphony env)"; pulumi state repair --stack={stack}` mends it',
        )
    return SymphonyError(
        f"the Pulumi CLI crashed: {reason}",
        where=stack,
        remedy="Run it again; `symphony doctor` shows its version",
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
