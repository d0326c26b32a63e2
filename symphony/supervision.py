"""The supervisor of an experiment: decides when its processes start, are ready, restart and end.

It knows no backend: a World reports what runs and carries out the decisions. The supervisors of tmux and
Slurm call `step` about once a second. Everything that must survive is in the World (holds) and in State, so
a supervisor may be killed at any time.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Literal, Protocol

import msgspec
from msgspec.structs import replace

# Concurrent probes: a probe that hangs must not delay the others.
_THREADS = 16
# Seconds before a limit at which the logs get a warning; half of the limit, if the limit is not longer.
_WARNING = 600.0
# The share of a CPU below which a process counts as idle, and the seconds between two measurements.
_IDLE_SHARE, _IDLE_LOOK = 0.01, 30.0
_NOTIFY_SECONDS = 60.0
_LAST_LINES = 20
# Seconds without a start or an end among equal workers after which all restart, if some kept running.
_QUIET = 2.0
_BLOCKED = "blocked"


class Wait(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A dependency on the process `path`; restart_with: a restart of `path` restarts the dependent."""

    path: str
    condition: Literal["started", "ready", "completed", "ended"]
    timeout: float | None = None
    restart_with: bool = False

    def __str__(self) -> str:
        return f"{self.path} ({self.condition})"


class Probe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A check of a process, with Kubernetes' terms; target: the path of http or the pattern of log."""

    kind: Literal["tcp", "http", "exec", "log"]
    host: str = "127.0.0.1"
    port: int = 0
    target: str = ""
    argv: tuple[str, ...] = ()
    period: float = 2
    timeout: float = 2
    failures: int = 3
    delay: float = 0


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process of the experiment; ports: the ports that it should listen on.

    termination_delay: the seconds that it keeps running after the primaries have completed or one has failed.
    """

    ports: tuple[int, ...] = ()
    readiness: Probe | None = None
    liveness: Probe | None = None
    waits_for: tuple[Wait, ...] = ()
    termination_delay: float = 0


class Declaration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The processes of an experiment by path, and when it ends.

    primary: the paths of the processes whose end ends the experiment. notify: the command to run at the end.
    folder: where notify runs; empty for the folder of the supervisor.
    equal: groups of paths of equal workers, which restart together.
    """

    name: str
    members: dict[str, Member]
    equal: tuple[tuple[str, ...], ...] = ()
    primary: tuple[str, ...] = ()
    stop_after: float | None = None
    idle_after: float | None = None
    notify: tuple[str, ...] = ()
    folder: str = ""

    def with_addresses(self, ports: Mapping[int, int], hosts: Mapping[str, str] | None = None) -> Declaration:
        """Return the declaration with some ports replaced, and with the hosts of the processes."""
        members = {
            path: msgspec.structs.replace(
                member,
                ports=tuple(ports.get(port, port) for port in member.ports),
                readiness=_with_address(member.readiness, ports, (hosts or {}).get(path)),
                liveness=_with_address(member.liveness, ports, (hosts or {}).get(path)),
            )
            for path, member in self.members.items()
        }
        return msgspec.structs.replace(self, members=members)


def _with_address(probe: Probe | None, ports: Mapping[int, int], host: str | None) -> Probe | None:
    if probe is None:
        return None
    return msgspec.structs.replace(probe, port=ports.get(probe.port, probe.port), host=host or probe.host)


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a process does not run.

    why: the reason in words. with_workers: the process starts again together with its equal workers.
    blocked: waiting alone does not help. stopped: the end of the experiment that stopped the process; a
    process that was blocked then still tells why it is blocked.
    since: when the wait began, for its deadline, in the seconds of World.now; None if unknown.
    shown_since: when the process was last blocked or unblocked; None if it never was.
    """

    waits_for: tuple[Wait, ...] = ()
    why: str = ""
    with_workers: bool = False
    blocked: bool = False
    stopped: Literal["", "completed", "failed", "stopped"] = ""
    since: float | None = None
    shown_since: float | None = None

    @property
    def is_over(self) -> bool:
        """Return whether nothing holds the process any longer; the supervisor then starts it at once."""
        return not (self.waits() or self.blocked or self.stopped)

    @property
    def state(self) -> Literal["blocked", "stopped", "waiting"]:
        """Return the state of the process."""
        return "blocked" if self.blocked else "stopped" if self.stopped else "waiting"

    def waits(self) -> tuple[str, ...]:
        """Return the conditions waited for, such as `prepare (completed)`; none for a stopped process."""
        workers = ("the other workers (started)",) if self.with_workers else ()
        return () if self.state == "stopped" else (*map(str, self.waits_for), *workers)


class Fact(msgspec.Struct, frozen=True):
    """The state of a process now.

    start: identifies a start of the process; after the end it may be only a prefix of that identity; empty
    between two starts. since: the time of that start, in the seconds of World.now. exit: the exit code.
    hold: why the process does not run (state "held"), or will not run once it has ended (state "ending").
    """

    state: Literal["held", "running", "ending", "completed", "failed", "lost"]
    start: str = ""
    since: float = 0
    why: str = ""
    exit: int | None = None
    hold: Hold | None = None


class World(Protocol):
    """The supervisor's view of a backend."""

    def now(self) -> float:
        """Return monotonic seconds since some moment of this boot."""
        ...

    def boot(self) -> str:
        """Return an identity of this boot or this job; the state of another one is not used."""
        ...

    def facts(self) -> Mapping[str, Fact]:
        """Return the state of every process that is held or was ever started, by path."""
        ...

    def missing_ports(self, path: str, ports: Iterable[int]) -> list[int]:
        """Return the ports on which no process of this process tree listens."""
        ...

    def hold(self, path: str, hold: Hold) -> None:
        """Record why a process must not run; end it with its grace period if it runs."""
        ...

    def release(self, path: str) -> str:
        """Start a held process; return why it cannot start, or an empty string."""
        ...

    def restart(self, path: str) -> None:
        """End a running process with its grace period; its restart policy decides what follows."""
        ...

    def run(self, path: str, argv: tuple[str, ...], timeout: float) -> str:
        """Run a command in a process's environment; return why it failed, or an empty string."""
        ...

    def new_lines(self, path: str, start: str) -> Iterable[str]:
        """Return the output of this start of a process since the last call."""
        ...

    def last_lines(self, path: str, lines: int) -> list[str]:
        """Return the last lines of output of a process."""
        ...

    def tell(self, path: str, line: str) -> None:
        """Write a line from symphony into the log of a running process."""
        ...

    def activity(self) -> Mapping[str, tuple[float, int]]:
        """Return the CPU seconds and the bytes of output of every running process tree, by path."""
        ...

    def load(self) -> bytes:
        """Return the bytes that `save` stored last; empty at first."""
        ...

    def save(self, state: bytes) -> None:
        """Store the supervisor's state."""
        ...


class Verdict(msgspec.Struct, frozen=True):
    """The answer of the readiness probe for one start of a process."""

    start: str
    ready: bool
    why: str = ""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the experiment; starts: the starts of the processes that ended it, by path."""

    state: Literal["completed", "failed", "stopped"]
    why: str
    at: float
    exit: int
    starts: dict[str, str]


class State(msgspec.Struct, kw_only=True):
    """The state of a supervisor, which outlives it.

    Attributes:
        began: When the experiment began, or began again after an end.
        active: When a process last printed something or used the CPU.
        warned: The reasons of the ends that the logs were warned of.
        verdicts: path -> the last answer of its readiness probe.
        started_with: path of a process that restarts with its dependencies -> the starts of these.
        met: path of an equal worker -> its latest start that needs no restart of the others in its group.
        unmet: path of the first worker of a group of which some have restarted since -> the latest starts of
            all its workers, and when they were seen.
    """

    boot: str = ""
    began: float | None = None
    active: float | None = None
    warned: tuple[str, ...] = ()
    verdicts: dict[str, Verdict] = {}
    started_with: dict[str, dict[str, str]] = {}
    met: dict[str, str] = {}
    unmet: dict[str, tuple[dict[str, str], float]] = {}
    end: End | None = None


def read_state(saved: bytes) -> State:
    """Return the saved state; a new state if a process of the experiment has overwritten the file."""
    try:
        return msgspec.json.decode(saved, type=State)
    except msgspec.DecodeError:
        return State()


class _Answer(msgspec.Struct, frozen=True):
    """The state of a wait: met, failed, or not met for the reason `why`."""

    met: bool = False
    failed: bool = False
    why: str = ""


class _Check(msgspec.Struct):
    """The probing of one start of a process; fails: consecutive failures."""

    start: str
    due: float
    fails: int = 0
    running: Future[str] | None = None


class _Look(msgspec.Struct):
    """The processes as one step sees them; ready: a cache of why they are not ready."""

    facts: dict[str, Fact]
    ready: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class Supervisor:
    """The supervisor of one experiment."""

    def __init__(self, world: World, declaration: Declaration) -> None:
        self._world, self._declared = world, declaration
        self._state = read_state(world.load())
        if self._state.boot != world.boot():
            self._state = State(boot=world.boot())
        self._saved = msgspec.json.encode(self._state)
        self._checks: dict[tuple[str, str], _Check] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="probe")
        self._seen: tuple[float, Mapping[str, tuple[float, int]]] | None = None
        # path -> the time at which this supervisor first saw the process held.
        self._since: dict[str, float] = {}
        self._look = _Look({})

    def step(self) -> bool:
        """Take the actions that are due now; return whether a process was started."""
        now = self._world.now()
        look = _Look({path: fact for path, fact in self._world.facts().items() if path in self._members})
        self._end_is_over(look, now)
        self._probe(look, now)
        started = False
        if self._state.end is None:
            self._restart_with(look, now)
            self._restart_equal(look, now)
            started = self._start(look, now)
        self._end(look, now)
        self._save()
        self._look = look
        return started

    def not_ready(self) -> dict[str, str]:
        """Return, by path, why processes that ran at the last step are not ready."""
        running = [path for path, fact in self._look.facts.items() if fact.state == "running"]
        return {path: why for path in running if (why := self._not_ready(path, self._look))}

    @property
    def _members(self) -> Mapping[str, Member]:
        return self._declared.members

    @property
    def _ending(self) -> tuple[str, ...]:
        """The processes whose end ends the experiment."""
        return self._declared.primary or tuple(self._members)

    def _save(self) -> None:
        if (now := msgspec.json.encode(self._state)) != self._saved:
            self._world.save(now)
            self._saved = now

    # waits

    def _start(self, look: _Look, now: float) -> bool:
        """Start the processes whose waits are over, and record why the others wait."""
        held = {path: fact.hold for path, fact in look.facts.items() if fact.state == "held" and fact.hold}
        self._since = {path: self._since.get(path, now) for path in held}
        before = {path: {wait.path for wait in hold.waits_for} for path, hold in held.items()}
        # Dependencies first, so that a block reaches the whole chain in one step. Only an `up` starts again
        # what a limit has stopped.
        ordered = TopologicalSorter(before).static_order()
        order = [path for path in ordered if path in held and not held[path].stopped]
        # Equal workers start when all of them have ended: no new worker may meet one that is about to end.
        early = {
            path
            for paths in self._declared.equal
            if any(self._is(look, other, "ending") for other in paths)
            for path in paths
        }
        return True in [self._decide(path, held, look, now) for path in order if path not in early]

    def _decide(self, path: str, held: dict[str, Hold], look: _Look, now: float) -> bool:
        """Start the process if its waits are over; return whether it was started."""
        hold = held[path]
        waited = now - (self._since[path] if hold.since is None else hold.since)
        answers = [(wait, self._answer(wait, held, look, now, waited)) for wait in hold.waits_for]
        missing = [(wait, answer) for wait, answer in answers if not answer.met]
        refused = "" if missing else self._world.release(path)
        if not missing and not refused:
            starts = {
                wait.path: self._start_of(look, wait.path) for wait in hold.waits_for if wait.restart_with
            }
            self._state.started_with |= {path: starts} if starts else {}
            return True
        failed = [answer.why for _, answer in missing if answer.failed] + [refused] * bool(refused)
        words = [f"{wait}{f': {answer.why}' if answer.why else ''}" for wait, answer in missing]
        why = "; ".join(failed) if failed else f"for {', '.join(words)}"
        shown_since = hold.shown_since if hold.blocked == bool(failed) else now
        updated = msgspec.structs.replace(
            hold, why=why, blocked=bool(failed), stopped="", shown_since=shown_since
        )
        if updated != hold:
            self._world.hold(path, updated)
        held[path] = updated
        return False

    def _answer(
        self, wait: Wait, held: Mapping[str, Hold], look: _Look, now: float, waited: float
    ) -> _Answer:
        if (other := held.get(wait.path)) is not None:
            # The deadline counts only while the dependency itself does not wait.
            return _Answer(failed=other.blocked, why=f"{wait.path} is blocked" if other.blocked else "")
        if (fact := look.facts.get(wait.path)) is None:
            return _late(wait, "not started yet", waited)
        if fact.state == "ending":
            return _Answer(why="still ending")
        if fact.state == "running":
            missing = self._not_ready(wait.path, look) if wait.condition == "ready" else ""
            if wait.condition in ("started", "ready") and not missing:
                return _Answer(met=True)
            return _late(wait, missing, min(waited, now - fact.since))
        # A server that has ended no longer listens.
        listens = bool(self._members[wait.path].ports) if wait.path in self._members else False
        is_good = fact.state == "completed" and not (wait.condition == "ready" and listens)
        is_met = is_good or wait.condition in ("started", "ended")
        return _Answer(is_met, not is_met, f"{wait.path} {fact.state}: {fact.why}")

    def _not_ready(self, path: str, look: _Look) -> str:
        """Return why a running process is not ready; empty if it is."""
        if path not in look.ready:
            look.ready[path] = self._why_not_ready(path, look.facts[path])
        return look.ready[path]

    def _why_not_ready(self, path: str, fact: Fact) -> str:
        member = self._members.get(path, Member())
        if member.readiness is not None:
            verdict = self._state.verdicts.get(path)
            if verdict is None or not fact.start or verdict.start != fact.start:
                return "not probed yet"
            return "" if verdict.ready else verdict.why
        if not fact.start:
            return "restarting"
        missing = self._world.missing_ports(path, member.ports) if member.ports else []
        return ", ".join(f"port {port}: not listening yet" for port in missing)

    def _start_of(self, look: _Look, path: str) -> str:
        fact = look.facts.get(path)
        return fact.start if fact is not None else ""

    def _restart_with(self, look: _Look, now: float) -> None:
        """Restart processes with `restart_with` whose dependency has restarted since they started."""
        for path, member in self._members.items():
            waits = [wait for wait in member.waits_for if wait.restart_with]
            fact = look.facts.get(path)
            if not waits or fact is None or fact.state != "running":
                continue
            before = self._state.started_with.setdefault(path, {})
            for wait in waits:
                start = self._start_of(look, wait.path)
                # After the end, it may be only a prefix.
                if not start or before.setdefault(wait.path, start).startswith(start):
                    continue
                hold = Hold(waits_for=member.waits_for, why=f"for {wait}, which restarted", since=now)
                self._world.hold(path, hold)
                look.facts[path] = Fact("ending", hold=hold)
                del self._state.started_with[path]
                break

    def _restart_equal(self, look: _Look, now: float) -> None:
        """Restart all equal workers if only some have restarted: the others would wait for them."""
        for paths in self._declared.equal:
            running = {path: look.facts[path].start for path in paths if self._is(look, path, "running")}
            changed = {path for path in running if running[path] != self._state.met.get(path, running[path])}
            seen, since = self._state.unmet.get(paths[0], ({}, now))
            if not changed:
                self._state.met |= {path: start for path, start in running.items() if start}
            elif seen != running:
                self._state.unmet[paths[0]] = running, now
                continue
            elif now - since < _QUIET:
                # Most workers notice the end of another themselves and restart a moment later.
                continue
            elif changed < running.keys():
                why = f"for the other workers: {', '.join(sorted(changed))} started again"
                for path in running:
                    waits = self._members[path].waits_for
                    hold = Hold(waits_for=waits, why=why, with_workers=True, since=now)
                    self._world.hold(path, hold)
                    look.facts[path] = Fact("ending", hold=hold)
                    self._state.met.pop(path, None)
            elif all(running.values()):
                self._state.met |= running
            else:
                # A worker is about to start.
                continue
            self._state.unmet.pop(paths[0], None)

    def _is(self, look: _Look, path: str, state: str) -> bool:
        return path in look.facts and look.facts[path].state == state

    # probes

    def _probe(self, look: _Look, now: float) -> None:
        """Collect the answers of probes and begin the probes that are due, without blocking."""
        for path, member in self._members.items():
            fact = look.facts.get(path)
            for kind, probe in (("readiness", member.readiness), ("liveness", member.liveness)):
                if probe is None:
                    continue
                key = (path, kind)
                if fact is None or fact.state != "running" or not fact.start:
                    self._checks.pop(key, None)
                    if kind == "readiness":
                        self._state.verdicts.pop(path, None)
                    continue
                check = self._checks.get(key)
                if check is None or check.start != fact.start:
                    check = self._checks[key] = _Check(fact.start, fact.since + probe.delay)
                self._advance(path, kind, probe, check, now)

    def _advance(self, path: str, kind: str, probe: Probe, check: _Check, now: float) -> None:
        if check.running is not None and check.running.done():
            failure = _outcome(check.running)
            check.running = None
            check.fails = check.fails + 1 if failure else 0
            if kind == "readiness":
                self._judge(path, probe, check, failure)
            elif check.fails >= probe.failures:
                self._world.tell(path, f"liveness probe failed {check.fails} times: {failure}")
                self._world.restart(path)
                # Ending takes up to the grace period.
                check.fails, check.due = 0, now + probe.period + probe.delay
            if probe.kind == "log" and not failure:
                # A line once printed stays printed, so there is nothing left to check.
                check.due = float("inf")
        if check.running is None and now >= check.due:
            check.due = now + probe.period
            check.running = self._threads.submit(self._check, path, probe, check.start)

    def _judge(self, path: str, probe: Probe, check: _Check, failure: str) -> None:
        before = self._state.verdicts.get(path)
        was_ready = before is not None and before.start == check.start and before.ready
        # As in Kubernetes: one success makes a process ready, several failures in a row make it unready.
        ready = not failure or (was_ready and check.fails < probe.failures)
        self._state.verdicts[path] = Verdict(check.start, ready, "" if ready else failure)

    def _check(self, path: str, probe: Probe, start: str) -> str:
        """Return why a check fails, or an empty string; runs in a thread."""
        if probe.kind == "exec":
            return self._world.run(path, probe.argv, probe.timeout)
        if probe.kind == "log":
            pattern = re.compile(probe.target)
            has_match = any(pattern.search(line) for line in self._world.new_lines(path, start))
            return "" if has_match else f"no line of the output matches {probe.target}"
        is_own = probe.port in self._members[path].ports
        if is_own and self._world.missing_ports(path, (probe.port,)):
            return f"port {probe.port}: not listening yet"
        return _tcp(probe) if probe.kind == "tcp" else _http(probe)

    # ends

    def _end_is_over(self, look: _Look, now: float) -> None:
        """Clear the end of the experiment if a process in its `starts`, or a new primary, has started."""
        if self._state.began is None and look.facts:
            starts = [fact.since for fact in look.facts.values() if fact.state == "running"]
            self._state.began = min(starts, default=now)
        if (end := self._state.end) is None:
            return
        known = {path: fact for path, fact in look.facts.items() if path in end.starts}
        own = {path: look.facts[path] for path in self._ending if path in look.facts}
        # An `up` may have added a primary since; it changes nothing while another one is failed.
        is_new = not any(map(_has_failed, own.values())) and any(
            _is_alive(fact) for path, fact in own.items() if path not in end.starts
        )
        if not (is_new or any(_is_another(fact, end.starts[path]) for path, fact in known.items())):
            return
        self._state.end, self._state.began, self._state.active, self._state.warned = None, now, now, ()
        if end.state == "stopped":
            # An `up` starts all processes; a restart of one process starts no other.
            return
        for path, fact in list(look.facts.items()):
            if fact.hold is not None and fact.hold.stopped:
                waits = fact.hold.waits_for
                hold = Hold(waits_for=waits, why=f"for {', '.join(map(str, waits))}", since=now)
                # Also while the process still ends: it restarts afterwards.
                self._world.hold(path, hold)
                look.facts[path] = replace(fact, hold=hold)

    def _end(self, look: _Look, now: float) -> None:
        """End the experiment if it is due, and stop the processes whose termination delay is over."""
        if self._state.end is None and (end := self._due_end(look, now)) is not None:
            self._state.end = end
            # Saved before the command runs, so that it runs once, whatever happens to the supervisor.
            self._save()
            self._notify(end, look, now)
        if (end := self._state.end) is None:
            return
        for path, fact in look.facts.items():
            delay = self._members[path].termination_delay if end.state != "stopped" else 0
            # Without primaries all have ended already.
            is_ending = end.state == "stopped" or bool(self._declared.primary)
            if _is_alive(fact) and now >= end.at + delay and is_ending:
                waits = fact.hold.waits_for if fact.hold is not None else self._members[path].waits_for
                hold = Hold(waits_for=waits, why=end.why, stopped=end.state, since=now)
                if fact.hold is not None and fact.hold.blocked:
                    hold = msgspec.structs.replace(fact.hold, stopped=end.state)
                self._world.hold(path, hold)

    def _due_end(self, look: _Look, now: float) -> End | None:
        """Return the end that is due now, if any; warn of an end that is near."""
        facts, ending = look.facts, self._ending
        own = {path: facts[path] for path in ending if path in facts}
        failed = {path: fact for path, fact in own.items() if _has_failed(fact)}
        is_over = len(own) == len(ending) and all(
            _has_failed(f) or f.state == "completed" for f in own.values()
        )
        if (is_over and (self._declared.primary or self._declared.notify)) or (
            failed and self._declared.primary
        ):
            path, fact = next(iter(failed.items()), ("", None))
            why = f"{path} {_how(fact, facts)}" if fact is not None else f"{', '.join(ending[:3])} completed"
            # Processes that failed earlier count too: a restart of one of them resumes the experiment.
            starts = {
                path: _start_or_blocked(f) for path, f in facts.items() if path in own or _has_failed(f)
            }
            state, code = ("completed", 0) if fact is None else ("failed", fact.exit or 1)
            return End(state=state, why=why, at=now, exit=code, starts=starts)
        if not any(_is_alive(fact) for fact in facts.values()):
            # An `up` that starts one again begins the experiment again.
            self._state.began, self._state.active, self._state.warned = None, None, ()
            return None
        for limit, since, why in self._limits(now):
            left = since + limit - now
            if left <= 0:
                starts = {path: _start_or_blocked(fact) for path, fact in facts.items()}
                return End(state="stopped", why=why, at=now, exit=124, starts=starts)
            self._warn(facts, limit, left, why)
        return None

    def _limits(self, now: float) -> Iterator[tuple[float, float, str]]:
        """Yield the seconds of a limit, the moment from which they count, and the reason of the end."""
        if self._declared.stop_after is not None and self._state.began is not None:
            limit = self._declared.stop_after
            yield limit, self._state.began, f"the time limit of {duration(limit)} (stop_after) is over"
        if self._declared.idle_after is not None:
            limit = self._declared.idle_after
            why = f"no output and no CPU use for {duration(limit)} (idle_after)"
            yield limit, self._active(limit, now), why

    def _active(self, limit: float, now: float) -> float:
        """Return when a process last printed something or used the CPU."""
        if self._state.active is None:
            self._state.active = now
        look_after = max(0.5, min(_IDLE_LOOK, limit / 10))
        if self._seen is None or now - self._seen[0] >= look_after:
            activity = self._world.activity()
            if self._seen is not None and _was_active(self._seen[1], activity, now - self._seen[0]):
                self._state.active = now
                self._state.warned = tuple(
                    warning for warning in self._state.warned if "no output" not in warning
                )
            self._seen = (now, activity)
        return self._state.active

    def _warn(self, facts: Mapping[str, Fact], limit: float, left: float, why: str) -> None:
        if left > (_WARNING if limit > _WARNING else limit / 2) or why in self._state.warned:
            return
        self._state.warned = (*self._state.warned, why)
        # The warning must not count as output of the processes.
        self._seen = None
        self._save()
        for path, fact in facts.items():
            if fact.state == "running":
                self._world.tell(
                    path,
                    f"{self._declared.name} will stop in {duration(left)}; the reason will be: {why}",
                )

    def _notify(self, end: End, look: _Look, now: float) -> None:
        if not self._declared.notify:
            return
        # Without output of a process that failed, that of another may show why the experiment ended.
        primary = self._declared.primary
        causes = sorted(end.starts, key=lambda path: (not _has_failed(look.facts[path]), path not in primary))
        variables = {
            "NAME": self._declared.name,
            "STATE": end.state,
            "EXIT": str(end.exit),
            "SECONDS": str(round(now - (self._state.began or now))),
            "WHY": end.why,
        }
        self._threads.submit(self._run_notify, causes, variables)

    def _run_notify(self, causes: list[str], variables: dict[str, str]) -> None:
        last: list[str] = []
        for path in causes:
            if last := self._world.last_lines(path, _LAST_LINES):
                break
        notify(self._declared.notify, variables, last, self._declared.folder or None)


def notify(
    command: Sequence[str],
    variables: Mapping[str, str],
    last_lines: Sequence[str],
    folder: Path | str | None = None,
) -> None:
    """Run the user's command with the facts of an end in its environment; ignore its failure."""
    last = "\n".join(last_lines).replace("\0", "")[-8192:]
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            command,
            env={**os.environ, **variables, "LAST_LINES": last},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            timeout=_NOTIFY_SECONDS,
            check=False,
        )


def duration(seconds: float) -> str:
    """Return a duration as `12s`, `9m 30s`, `14m`, `3h 12m`, `8h`, `2d 4h` or `12d`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m" + (f" {whole % 60}s" if whole < 600 and whole % 60 else "")
    if whole < 86400:
        return f"{whole // 3600}h" + (f" {whole % 3600 // 60}m" if whole % 3600 >= 60 else "")
    return f"{whole // 86400}d" + (f" {whole % 86400 // 3600}h" if whole < 864000 else "")


def _is_alive(fact: Fact) -> bool:
    """Return whether a process runs, or is held (even blocked) by anything but an end of the experiment."""
    return fact.state == "running" or (fact.hold is not None and not fact.hold.stopped)


def _start_or_blocked(fact: Fact) -> str:
    """Return the start of a process for the record of an end; a blocked process has no start yet."""
    return _BLOCKED if fact.hold is not None and fact.hold.blocked else fact.start


def _is_another(fact: Fact, start: str) -> bool:
    """Return whether a process has started again since `start`; it may have ended again as well."""
    if start == _BLOCKED:
        return _is_alive(fact) and not _has_failed(fact)
    if _is_alive(fact):
        return fact.start != start
    return fact.state in ("completed", "failed") and not start.startswith(fact.start)


def _has_failed(fact: Fact) -> bool:
    """Return whether a process has failed for good, or is blocked and no end has stopped it."""
    if fact.hold is not None:
        return fact.hold.blocked and not fact.hold.stopped
    return fact.state in ("failed", "lost")


def _how(fact: Fact, facts: Mapping[str, Fact]) -> str:
    """Return how a process failed, in words; for a blocked one, why the first of the chain is blocked."""
    if fact.hold is None:
        return f"{fact.state}: {fact.why}" if fact.why else fact.state
    before = [facts[wait.path] for wait in fact.hold.waits_for if wait.path in facts]
    if blocked := [other for other in before if other.hold is not None and other.hold.blocked]:
        return _how(blocked[0], facts)
    return f"is blocked: {fact.hold.why}"


def _late(wait: Wait, why: str, waited: float) -> _Answer:
    if wait.timeout is None or waited < wait.timeout:
        return _Answer(why=why)
    more = f": {why}" if why else ""
    return _Answer(failed=True, why=f"{wait.path} is not {wait.condition} after {wait.timeout:.0f} s{more}")


def _outcome(check: Future[str]) -> str:
    try:
        return check.result()
    except Exception as error:
        # The command or the log may have disappeared meanwhile.
        return f"{type(error).__name__}: {error}"


def _tcp(probe: Probe) -> str:
    try:
        with socket.create_connection((probe.host, probe.port), probe.timeout):
            return ""
    except OSError as error:
        return f"port {probe.port}: {error.strerror or error}"


def _http(probe: Probe) -> str:
    """Return why a GET fails, or an empty string."""
    # Imported here: all commands load this module.
    from http.client import HTTPConnection, HTTPException

    where = f"GET {probe.target} at port {probe.port}"
    try:
        with closing(HTTPConnection(probe.host, probe.port, timeout=probe.timeout)) as connection:
            connection.request("GET", probe.target, headers={"Connection": "close"})
            status = connection.getresponse().status
    except HTTPException:
        return f"{where}: the answer is not HTTP"
    except OSError as error:
        return f"{where}: {error.strerror or error}"
    return "" if 200 <= status < 400 else f"{where}: status {status}"


def _was_active(
    before: Mapping[str, tuple[float, int]], after: Mapping[str, tuple[float, int]], seconds: float
) -> bool:
    """Return whether a process printed something, used the CPU, started or ended."""
    if before.keys() != after.keys():
        return True
    return any(
        output != before[path][1] or cpu - before[path][0] > _IDLE_SHARE * seconds
        for path, (cpu, output) in after.items()
    )
