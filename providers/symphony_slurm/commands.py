"""Runs Slurm's programs with a clean environment and a deadline; all options exist since Slurm 20.11."""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from symphony.errors import SymphonyError, UserError

_DEADLINE = 15.0
# The fields of a job in squeue, in this order; the comment may have any character, so it is the last.
_COLUMNS = "%i|%T|%S|%L|%r|%k"
_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "PYTHONPATH")
_ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
        *("PREEMPTED", "TIMEOUT", "REVOKED"),
    }
)
_SIGNS = "*~#!%$@^-+"
_ENDED_ALREADY = re.compile(r"Invalid job id|already complet", re.IGNORECASE)
_UNANSWERED = re.compile(r"Unable to contact|Connection refused|timed out|Unable to process configuration")


class NoAnswer(SymphonyError):
    """A program of Slurm is missing, or its controller or configuration cannot be reached."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as squeue reports it.

    start: when it began or is expected to, `left`: how long it may still run; both in the words of Slurm.
    components: the further components of a heterogeneous job, of which this is the first.
    """

    number: int
    state: str
    start: str = ""
    left: str = ""
    reason: str = ""
    comment: str = ""
    components: tuple[Job, ...] = field(default=(), kw_only=True)

    @property
    def is_waiting(self) -> bool:
        return self.state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "CONFIGURING", "SPECIAL_EXIT")

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDED or self.state == "COMPLETING"

    @property
    def has_processes(self) -> bool:
        """Return whether a process of the job may still run or start."""
        return any(not job.has_ended or job.state == "COMPLETING" for job in (self, *self.components))


def environment(configuration: str) -> dict[str, str]:
    """Return the environment of every call: nothing of an outer job, and no defaults of the user's shell."""
    result = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    if file := configuration or os.environ.get("SLURM_CONF", ""):
        result["SLURM_CONF"] = file
    return result


def call(configuration: str, words: Sequence[str]) -> str:
    """Return the output of a program of Slurm.

    Raises:
        NoAnswer: The program is missing, or Slurm does not answer.
        SymphonyError: The program fails.
    """
    done = _run(configuration, words)
    if done.returncode:
        lines = [_plain(line) for line in done.stderr.strip().splitlines()]
        text = lines[0] if lines else f"exit {done.returncode}"
        if _UNANSWERED.search(done.stderr):
            raise _no_answer(text)
        raise SymphonyError(f"{words[0]}: {text}")
    return done.stdout


def _run(configuration: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            env=environment(configuration),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DEADLINE,
            check=False,
        )
    except FileNotFoundError:
        remedy = "Run symphony on a login node of the cluster, or install Slurm's client programs"
        raise NoAnswer(f"Slurm's program {words[0]} is not on PATH", remedy=remedy) from None
    except subprocess.TimeoutExpired:
        raise _no_answer(f"{words[0]} did not answer in {_DEADLINE:.0f} s") from None


def _plain(line: str) -> str:
    """Return a line of a program without the name of the program."""
    return re.sub(r"^\w+: (error: |fatal: )?", "", line)


def jobs(configuration: str) -> dict[int, Job]:
    """Return the jobs of this user by number, including those that ended a moment ago."""
    user = str(os.getuid())
    out = call(configuration, ["squeue", "-h", "-u", user, "-t", "all", "-o", _COLUMNS])
    # squeue names the components of a heterogeneous job 12+0, 12+1.
    found: dict[int, dict[int, Job]] = {}
    for line in out.splitlines():
        identifier, *fields = line.split("|", 5)
        number, _, component = identifier.partition("+")
        if number.isdecimal() and len(fields) == 5:
            found.setdefault(int(number), {})[int(component or 0)] = Job(int(number), *fields)
    return {number: _joined([rows[key] for key in sorted(rows)]) for number, rows in found.items()}


def _joined(rows: Sequence[Job]) -> Job:
    """Return a job by its components, which start together: the last start and the first end are its own."""
    first, *others = rows
    if not others:
        return first
    reasons = [job.reason for job in rows if job.reason not in ("", "None")]
    left = [job.left for job in rows if job.left[:1].isdecimal()]
    return replace(
        first,
        start=max((job.start for job in rows if job.start[:1].isdecimal()), default=first.start),
        left=min(left, key=lambda text: (len(text), text), default=first.left),
        reason=reasons[0] if reasons else first.reason,
        components=tuple(others),
    )


def time_limits(configuration: str) -> dict[str, str]:
    """Return the time limit of each partition, such as 1-00:00:00 or infinite; "" is the default one."""
    rows = [line.split() for line in call(configuration, ["sinfo", "-h", "-a", "-o", "%P %l"]).splitlines()]
    limits = {name.removesuffix("*"): limit for name, limit in rows}
    limits.update(("", limit) for name, limit in rows if name.endswith("*"))
    return limits


def nodes_by_partition(configuration: str) -> dict[str, dict[str, str]]:
    """Return the nodes of each partition with their states, such as idle or drain; "" is the default one."""
    nodes: dict[str, dict[str, str]] = {}
    for line in call(configuration, ["sinfo", "-h", "-a", "-N", "-o", "%N %P %t"]).splitlines():
        # Some versions print the name of the cluster first.
        if len(words := line.split()) == 3:
            name, partition, state = words
            # A sign after the state says more, such as mix- of a node that is planned for another job.
            nodes.setdefault(partition.removesuffix("*"), {})[name] = state.rstrip(_SIGNS)
            if partition.endswith("*"):
                nodes.setdefault("", {})[name] = state.rstrip(_SIGNS)
    return nodes


def seconds_of(limit: str) -> float:
    """Return the seconds of a time limit: 90 (minutes), 90:00, 1:30:00, 2-12, 2-12:00 or infinite."""
    days, _, clock = limit.rpartition("-")
    try:
        parts = [int(part) for part in clock.split(":")]
        if days:
            hours, minutes, seconds = (*parts, 0, 0)[:3]
        else:
            hours, minutes, seconds = parts if len(parts) == 3 else (0, *parts, 0)[:3]
        return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    except ValueError:
        return math.inf


def submit(configuration: str, options: Sequence[str], script: str) -> int:
    """Submit a batch script and return the number of its job.

    Raises:
        UserError: Slurm refuses the options.
    """
    try:
        out = call(configuration, ["sbatch", "--parsable", *options, script])
    except NoAnswer:
        raise
    except SymphonyError as error:
        remedy = "Request less, or change the settings of the stack, which `symphony config STACK` lists"
        raise UserError(f"Slurm refuses the allocation: {error.what}", remedy=remedy) from error
    return int(out.strip().partition(";")[0])


def expected_start(configuration: str, options: Sequence[str]) -> str:
    """Return the time at which Slurm would start such a job, as `2026-11-25T14:20:00`.

    Raises:
        SymphonyError: It never would, or does not say.
    """
    said = _run(configuration, ["sbatch", "--test-only", *options, "--wrap=true"]).stderr
    if start := re.search(r"to start at (\S+)", said):
        return start[1]
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("Try ")]
    errors = [line for line in lines if "error: " in line]
    text = [*errors, *reversed(lines), "sbatch --test-only printed nothing"][0]
    raise (_no_answer(text) if _UNANSWERED.search(said) else SymphonyError(_plain(text)))


def cancel(configuration: str, numbers: Iterable[int], *options: str) -> None:
    """End jobs, or signal them; jobs that have ended already are not an error."""
    words = [str(number) for number in numbers]
    try:
        call(configuration, ["scancel", *options, *words])
    except NoAnswer:
        raise
    except SymphonyError as error:
        if not _ENDED_ALREADY.search(error.what):
            raise


def addresses(configuration: str, nodes: Iterable[str]) -> dict[str, str]:
    """Return the address of each node by its name, as other nodes reach it."""
    result: dict[str, str] = {}
    for line in call(configuration, ["scontrol", "show", "node", "-o", ",".join(nodes)]).splitlines():
        fields: dict[str, str] = {}
        for part in line.split():
            name, _, value = part.partition("=")
            fields[name] = value
        if "NodeName" in fields:
            result[fields["NodeName"]] = fields.get("NodeAddr") or fields["NodeName"]
    return result


def node_names(configuration: str, text: str) -> list[str]:
    """Return the nodes that a list such as `n[1-4]` stands for."""
    return call(configuration, ["scontrol", "show", "hostnames", text]).split()


def _no_answer(text: str) -> NoAnswer:
    return NoAnswer(f"Slurm does not answer: {text}", remedy="Run the command again when `sinfo` answers")
