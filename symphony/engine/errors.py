"""Converts failures of the engine, a plugin or the program to errors with a place and a remedy."""

import os
import re
import sysconfig
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import msgspec

from symphony import paths
from symphony.engine.run.events import Diagnostic, Outcome
from symphony.engine.state import file_store, locks
from symphony.errors import SymphonyError, UserError

_PLUGIN = re.compile(
    r"(?:no|install) (?:\w+ )?plugin 'pulumi-(?P<kind>\w+)-(?P<name>[\w-]+)'"
    r"(?:.* at version v(?P<version>[\w.+-]+))?"
)
_IMAGE = "pulumi-python:dynamic/symphony_docker:Image"
_REMEDIES = (
    ("violates PodSecurity", "Set the config symphony:podSecurity restricted, or use another namespace"),
    ("exceeded quota", "Delete other experiments there, or ask for a higher quota"),
    ("timed out waiting for the condition", "Check that the cluster answers, and run the command again"),
    ("is forbidden: User ", "Ask the cluster's administrator for the Role that `symphony rbac` prints"),
)
# Pulumi's Kubernetes plugin repeats it for each resource, and advises to delete them from the state.
UNREACHABLE_CLUSTER = re.compile("cluster is unreachable|unreachable cluster")
# The plugin's warning about a deletion that it could not follow, which names no finalizer.
NO_FINALIZERS = "finalizers might be preventing deletion ()"
# The plugin's error for a request without an answer.
_NO_CONNECTION = re.compile(
    r'^\w+ "https?://[^"]+": .*(?:TLS handshake timeout|connection lost|i/o timeout|no route to host'
    r"|connection refused|connection reset by peer|deadline exceeded|EOF)"
)
_KUBERNETES_URN = re.compile(r"[:$]kubernetes:\w")
# The plugin's prefixes to errors of the API server.
_PLUGIN_PREFIX = re.compile(
    r'(?:creation of |update of )?resource "urn:[^"]+" [^:]*: '
    r'|the Kubernetes API server reported that "[^"]+" failed to fully initialize or become live: '
)
# The first line of several errors, each of which follows in a line of its own.
_SEVERAL = re.compile(r"\d+ errors? occurred:$")
# The engine names a file before these words, a Python exception after them.
_FULL_DISK = re.compile(
    r"(?:(?<!\S)(?:file://)?(?P<engine>/\S*): )?no space left on device(?:: '(?P<python>/[^']+)')?",
    re.IGNORECASE,
)
# The engine's errors when the program has ended during a call, and before one.
_NO_ANSWER = re.compile(r"error reading from server: EOF|dial unix \S+/program: connect: connection refused")
_HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$", re.DOTALL)
_OURS = re.compile(r"^symphony(?:_\w+)?\.")
_LIBRARIES = ("<frozen ", "pulumi-language-python-exec", "/site-packages/", "/dist-packages/")
_OWN_FOLDERS = (f"{Path(__file__).parents[1]}/", f"{sysconfig.get_path('stdlib')}/")
# The beginnings of lines that only repeat that something failed.
_ECHOES = ("update failed", "preview failed", "an unhandled error occurred: program exited")


class Traceback(msgspec.Struct, frozen=True):
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


class Interrupted(SymphonyError):
    """The user or another program stopped the run."""

    exit_code = 130


def check(outcome: Outcome, owners: Mapping[str, str] = MappingProxyType({})) -> None:
    """Raise the error of a run unless it succeeded; owners: the processes of resources, by urn."""
    if outcome.result != "succeeded":
        raise error_of(outcome, owners)


def error_of(outcome: Outcome, owners: Mapping[str, str] = MappingProxyType({})) -> SymphonyError:
    """Return the error of a run that failed or was interrupted."""
    verb = {"preview": "plan", "destroy": "delete"}.get(outcome.verb, outcome.verb)
    if outcome.result == "interrupted" and outcome.is_terminated:
        return terminated(outcome, verb)
    if outcome.result == "interrupted":
        again = f"Run `symphony {verb} {outcome.stack}` to finish"
        remedies = {"preview": "Nothing was changed", "refresh": "Run the command again"}
        remedy = remedies.get(outcome.verb, again)
        return Interrupted(f"{verb} of {outcome.stack} was interrupted", remedy=remedy)
    if outcome.exit_code < 0:
        return _killed_error("the Pulumi engine")
    errors = [d for d in outcome.diagnostics if d.severity == "error"]
    if outcome.verb in ("up", "preview") and _is_program_gone([*(d.message for d in errors), outcome.stderr]):
        return _killed_error(f"the program of {outcome.stack}")
    causes = [d for d in errors if not d.message.startswith(_ECHOES)]
    if failures := [d for d in causes if d.urn]:
        return _resources_error(failures, outcome, owners)
    if causes:
        return _program_error(causes[0].message, outcome)
    if errors:
        return _exit_error(errors[-1].message, outcome)
    return from_text(outcome.stderr, stack=outcome.stack, project=outcome.project)


def terminated(outcome: Outcome, verb: str) -> Interrupted:
    """Return the error of a run that another program ended by SIGTERM."""
    what = f"{verb} of {outcome.stack} was ended by another command, such as `symphony delete`"
    return Interrupted(what, remedy="`symphony ls` shows what is up")


def _is_program_gone(texts: list[str]) -> bool:
    """Return whether the engine reports nothing, or only that the program no longer answers."""
    lines = [text.strip() for text in texts if text.strip()]
    return all(_NO_ANSWER.search(line) and "\n" not in line for line in lines)


def from_text(text: str, *, stack: str, project: str = "") -> SymphonyError:
    """Return the error for the text that `pulumi` printed, such as before the engine began to work."""
    plain = re.sub(r"^(error: )+", "", text.strip())
    if known := _known_error(plain, stack, project):
        return known
    if trace := find_traceback(plain):
        return _provider_error(trace, stack)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    what = lines[0].rstrip(".") if lines else "the Pulumi engine failed without a message"
    return SymphonyError(what, where=stack)


def _resources_error(
    diagnostics: list[Diagnostic], outcome: Outcome, owners: Mapping[str, str]
) -> SymphonyError:
    """Return an error with the first failure, and a line for every other one."""
    errors = [
        _resource_error(diagnostic, outcome, owners.get(diagnostic.urn) or diagnostic.urn.rpartition("::")[2])
        for diagnostic in diagnostics
    ]
    # The same cause stops many resources, such as a server that does not answer.
    distinct = list({(error.what, error.where): error for error in errors}.values())
    first, *others = distinct
    if not others:
        return first
    what = f"{first.what}, and {len(others)} more failed"
    details = tuple(f"  {error.where}: {error.what}" for error in others)
    return SymphonyError(what, where=first.where, remedy=first.remedy, details=details)


def _resource_error(diagnostic: Diagnostic, outcome: Outcome, path: str) -> SymphonyError:
    message = diagnostic.message
    if _KUBERNETES_URN.search(diagnostic.urn) and _NO_CONNECTION.search(_first_line(message)):
        return _unreachable(outcome.stack)
    if trace := find_traceback(message):
        return _provider_error(trace, path)
    if known := _known_error(message, outcome.stack, outcome.project):
        return known
    if _IMAGE in diagnostic.urn:
        # The last lines of the build step that failed.
        lines = tuple(f"    | {line}" for line in message.strip().splitlines()[1:])
        return SymphonyError(_first_line(message), details=lines)
    if "it is protected" in message or "marked for protection" in message:
        return protected_error([path])
    remedy = next((remedy for words, remedy in _REMEDIES if words in message), "")
    return SymphonyError(_first_line(message), where=path, remedy=remedy)


def protected_error(paths: Sequence[str]) -> UserError:
    """Return the error that the engine keeps the resources of processes, which the program protects."""
    what = (
        f"{', '.join(paths)} {'are' if len(paths) > 1 else 'is'} protected and cannot be deleted or replaced"
    )
    return UserError(what, remedy="Set protect=False in the `opts` and run `symphony up` first")


def _provider_error(trace: Traceback, path: str) -> SymphonyError:
    if trace.is_ours:
        kind = UserError if trace.name.endswith("UserError") else SymphonyError
        return kind(trace.text.rstrip("."), where=path)
    if match := _FULL_DISK.search(trace.short):
        return _full_disk(match, str(paths.home()))
    return SymphonyError(
        f"the resource's provider failed: {trace.short}",
        where=path,
        remedy='To see its traceback, run the same with `pulumi` after `eval "$(symphony env)"`',
    )


def _program_error(message: str, outcome: Outcome) -> SymphonyError:
    """Return the error that the user's program raised, with its line unless symphony raised it."""
    trace = find_traceback(message)
    if trace is None:
        known = _known_error(message, outcome.stack, outcome.project)
        first, *rest = message.strip().splitlines()
        return known or UserError(first.rstrip("."), details=tuple(rest))
    if trace.is_ours:
        first, *rest = trace.text.splitlines() or [trace.short]
        return UserError(first.rstrip("."), details=tuple(rest))
    where = trace.where.removeprefix(f"{outcome.folder}/")
    if trace.name == "bdb.BdbQuit":
        return UserError(
            "breakpoint() has no terminal: Pulumi runs the program",
            where=where,
            remedy="Write `import debugpy; debugpy.listen(5678); debugpy.wait_for_client()` in its place,"
            " and attach your editor to port 5678",
        )
    if trace.name in ("SyntaxError", "IndentationError", "TabError") and where:
        return UserError(f"{where}: {trace.text.rstrip('.')}", details=trace.frames)
    what = f"the program failed: {_first_line(trace.short)}"
    return UserError(what, where=where, details=trace.frames)


def _exit_error(message: str, outcome: Outcome) -> SymphonyError:
    match = re.search(r"non-zero exit code: (-?\d+)", message)
    if match is None:
        return SymphonyError(_first_line(message), where=outcome.stack)
    has_output = any(d.severity.startswith("info") and d.message for d in outcome.diagnostics)
    how = f"exited with {match[1]}{'' if has_output else ' without a message'}"
    if match[1] == "-1":
        return _killed_error(f"the program of {outcome.stack}")
    return UserError(f"the program of {outcome.stack} {how}")


def _killed_error(part: str) -> SymphonyError:
    remedy = "A user or program killed it, or the machine ran out of memory; run the command again"
    return SymphonyError(f"{part} was killed", remedy=remedy)


def _known_error(text: str, stack: str, project: str) -> SymphonyError | None:
    if "incorrect passphrase" in text or "message authentication failed" in text:
        return UserError(
            f"this passphrase does not decrypt the secrets of {stack}",
            where=f"Pulumi.{stack}.yaml",
            remedy="Set PULUMI_CONFIG_PASSPHRASE to the one the stack was made with. If nothing in that file"
            " is encrypted, remove its line `encryptionsalt`, which belongs to another passphrase",
        )
    if "passphrase must be set" in text:
        return UserError(
            f"the secrets of {stack} need a passphrase",
            remedy="Set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE",
        )
    if "is currently locked by" in text:
        return _locked_error(text, file_store.StackName(project, stack))
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
    if match := re.search(r"plugin \[([^]]+)\] did not begin responding to RPC", text):
        remedy = "It was killed, or the machine is overloaded; run the command again"
        return SymphonyError(f"the provider {match[1]} did not answer the engine", where=stack, remedy=remedy)
    if match := re.search(r'line (\d+): mapping key "([^"]+)" already defined at line (\d+)', text):
        # The engine names the file only if it is that of the project.
        file = re.search(r"could not unmarshal '([^']+)'", text)
        where = f"{Path(file[1]).name if file else f'Pulumi.{stack}.yaml'}:{match[1]}"
        return UserError(
            f"{match[2]} is set twice", where=where, remedy=f"Remove it here or in line {match[3]}"
        )
    if "failed to load checkpoint" in text:
        name = file_store.StackName(project, stack)
        return SymphonyError(
            f"the engine cannot load the state of {stack}",
            where=paths.store_url(),
            remedy=f'`eval "$(symphony env)"; pulumi stack export --stack={name}` shows why',
        )
    if "This is a bug!" in text:
        return _engine_bug(text, stack, project)
    if match := _FULL_DISK.search(text):
        return _full_disk(match, str(file_store.root()) if file_store.is_files() else "")
    if match := re.search(r"(\S+): (permission denied|read-only file system)", text):
        file = Path(match[1].removeprefix("file://"))
        if match[2] == "read-only file system":
            remedy = "Mount that folder writable, or copy the project to another folder"
        elif file.name.startswith("Pulumi.") and not os.path.lexists(file):
            remedy = "Make that folder writable (chmod u+w), or copy the project to another folder"
            return SymphonyError(f"{file.name} cannot be written", where=str(file.parent), remedy=remedy)
        else:
            remedy = "Take ownership of that file (chown)"
        return SymphonyError(match[2], where=str(file), remedy=remedy)
    return None


def _full_disk(match: re.Match[str], where: str) -> SymphonyError:
    """Return the error of a full disk; where: the folder to free unless the text names a file elsewhere."""
    file = match["engine"] or match["python"]
    if file and not Path(file).is_relative_to(where):
        where = str(Path(file).parent)
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


def _locked_error(text: str, name: file_store.StackName) -> SymphonyError:
    match = re.search(r"created by (\S+)@(\S+) \(pid (\d+)\) at (\S+)", text)
    if match is None:
        return locks.StackLocked(
            f"{name.stack} is being changed by another run", remedy="Wait until that run has ended"
        )
    since = datetime.fromisoformat(match[4]).timestamp()
    return locks.locked_error(name, locks.Lock(Path(), int(match[3]), match[1], match[2], since))


def _no_plugin(kind: str, name: str, version: str | None) -> SymphonyError:
    wanted = f" {version}" if version else ""
    return SymphonyError(
        f"the Pulumi plugin {name}{wanted} is not installed",
        remedy=f'Run `eval "$(symphony env)"; pulumi plugin install {kind} {name}{wanted}`',
    )


def _engine_bug(text: str, stack: str, project: str) -> SymphonyError:
    match = re.search(r"^(?:Error|Panic):\s+(.+)", text, re.MULTILINE)
    reason = match[1].strip() if match else _first_line(text)
    if "snapshot integrity" in text:
        name = file_store.StackName(project, stack)
        return SymphonyError(
            f"the state of {stack} is inconsistent: {reason.rpartition('refusing to use it: ')[2]}",
            where=paths.store_url(),
            remedy=f'Run `eval "$(symphony env)"; pulumi state repair --stack={name}`',
        )
    return SymphonyError(
        f"the Pulumi CLI crashed: {reason}",
        where=stack,
        remedy="Run the command again; `symphony doctor` shows the version of Pulumi",
    )


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and _SEVERAL.search(lines[0]):
        lines = [line.removeprefix("* ") for line in lines[1:]]
    return _PLUGIN_PREFIX.sub("", lines[0], count=1).rstrip(".") if lines else "no reason given"


def find_traceback(message: str) -> Traceback | None:
    """Return the last traceback in a message, if there is one."""
    _, head, text = message.rpartition(_HEAD)
    if not head:
        return None
    frames: list[str] = []
    ending: list[str] = []
    where, in_users_code = "", False
    for line in text.strip("\n").splitlines():
        match = _FRAME.match(line)
        if match:
            in_users_code = _is_users(match["file"])
            where = f"{match['file']}:{match['line']}" if in_users_code else where
        if match or (line.startswith("  ") and not ending):
            frames += [line] if in_users_code else []
        else:
            ending.append(line)
    exception = _EXCEPTION.match("\n".join(ending).strip())
    return Traceback(
        name=exception["name"] if exception else "error",
        text=((exception["text"] or "") if exception else "\n".join(ending)).strip(),
        frames=tuple(frames),
        where=where,
    )


def _is_users(file: str) -> bool:
    return not file.startswith(_OWN_FOLDERS) and not any(part in file for part in _LIBRARIES)
