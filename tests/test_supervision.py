"""The decisions of the supervisor on simulated processes; a new supervisor may take over at any step."""

from __future__ import annotations

import http.server
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from symphony.supervision import Declaration, Fact, Hold, Member, Probe, Supervisor, Wait, read_state
from tests.sandbox import wait_for


class World:
    """Processes that start, end and restart at once, on a clock that tests set."""

    def __init__(self) -> None:
        self.clock, self.starts = 1000.0, 0
        self.known: dict[str, Fact] = {}
        self.listening: set[int] = set()
        self.said: list[tuple[str, str]] = []
        self.restarted: list[str] = []
        self.output: dict[str, list[str]] = {}
        self.work: dict[str, tuple[float, int]] = {}
        self.saved = b""
        self.answer = ""

    def now(self) -> float:
        return self.clock

    def boot(self) -> str:
        return "boot"

    def facts(self) -> Mapping[str, Fact]:
        return dict(self.known)

    def missing_ports(self, path: str, ports: Iterable[int]) -> list[int]:
        return [port for port in ports if port not in self.listening]

    def hold(self, path: str, hold: Hold) -> None:
        self.known[path] = Fact("held", hold=hold)

    def release(self, path: str) -> str:
        self.start(path)
        return ""

    def restart(self, path: str) -> None:
        self.restarted.append(path)
        self.start(path)

    def run(self, path: str, argv: tuple[str, ...], timeout: float) -> str:
        if argv[0] == "hang":
            time.sleep(1)
        return self.answer

    def new_lines(self, path: str, start: str) -> Iterable[str]:
        new, self.output[path] = self.output.get(path, []), []
        return new

    def last_lines(self, path: str, lines: int) -> list[str]:
        return [] if path == "silent" else [f"printed by {path}"]

    def tell(self, path: str, line: str) -> None:
        self.said.append((path, line))

    def activity(self) -> Mapping[str, tuple[float, int]]:
        return {
            path: self.work.get(path, (0, 0)) for path, fact in self.known.items() if fact.state == "running"
        }

    def load(self) -> bytes:
        return self.saved

    def save(self, state: bytes) -> None:
        self.saved = state

    def start(self, path: str) -> None:
        self.starts += 1
        self.known[path] = Fact("running", start=f"{self.starts}.pid", since=self.clock)

    def end(self, path: str, code: int = 0) -> None:
        state = "failed" if code else "completed"
        # As in tmux: only the number of the start is known after the end.
        start = self.known[path].start.removesuffix("pid")
        self.known[path] = Fact(state, start=start, why=f"exit {code}", exit=code)

    def up(self, declared: Declaration) -> None:
        for path, member in declared.members.items():
            if path not in self.known or self.known[path].state in ("failed", "lost"):
                self.start(path)
                if member.waits_for:
                    self.hold(path, Hold(waits_for=member.waits_for, since=self.clock))

    @property
    def states(self) -> dict[str, str]:
        states = dict[str, str]()
        for path, fact in self.known.items():
            hold = fact.hold
            states[path] = fact.state if hold is None else hold.state
        return states


@pytest.fixture
def world() -> World:
    return World()


def _supervisors_of(world: World, **more: Any) -> Iterator[Supervisor]:
    """Run `up`, and return a supervisor for each step: before every second step a new one takes over."""
    declared = Declaration(name="rl", **more)
    world.up(declared)
    return _supervisors(world, declared)


def _supervisors(world: World, declared: Declaration) -> Iterator[Supervisor]:
    supervisor = Supervisor(world, declared)
    for turn in range(10_000):
        if turn % 2:
            supervisor = Supervisor(world, declared)
        yield supervisor


def _steps(supervisors: Iterator[Supervisor], count: int = 1) -> None:
    for _ in range(count):
        next(supervisors).step()


def _until(supervisors: Iterator[Supervisor], done: Any, tries: int = 200) -> None:
    """Step until something holds: probes answer in threads."""
    supervisor = next(supervisors)
    for _ in range(tries):
        supervisor.step()
        if done():
            return
        time.sleep(0.01)
    pytest.fail("it does not come")


def _wait(path: str, condition: Any = "ready", **more: Any) -> Wait:
    return Wait(path=path, condition=condition, **more)


def test_a_failed_process_satisfies_the_condition_started(world: World) -> None:
    """Even if it failed before the supervisor saw it running."""
    members = {"a": Member(), "b": Member(waits_for=(_wait("a", "started"),))}
    supervisors = _supervisors_of(world, members=members)
    world.end("a", 1)
    _steps(supervisors)
    assert world.states["b"] == "running"


def test_the_timeout_of_a_wait_counts_from_the_start_of_the_dependency(world: World) -> None:
    members = {
        "prepare": Member(),
        "server": Member(ports=(1,), waits_for=(_wait("prepare", "completed"),)),
        "client": Member(waits_for=(_wait("server", timeout=600),)),
    }
    supervisors = _supervisors_of(world, members=members)
    world.clock += 7200
    _steps(supervisors)
    assert world.states["client"] == "waiting"
    world.end("prepare")
    _steps(supervisors, 2)
    world.clock += 599
    _steps(supervisors)
    assert world.states["client"] == "waiting"
    world.clock += 2
    _steps(supervisors)
    assert world.states["client"] == "blocked"
    assert "600" in world.known["client"].hold.why  # type: ignore[union-attr]


@pytest.mark.thorough
def test_a_chain_of_300_and_1000_dependents_of_one_process_start_quickly(world: World) -> None:
    chain = {f"c{i}": Member(waits_for=(_wait(f"c{i - 1}", "started"),) if i else ()) for i in range(300)}
    wide = {f"w{i}": Member(waits_for=(_wait("c0", "completed"),)) for i in range(1000)}
    supervisors = _supervisors_of(world, members={**chain, **wide})
    began = time.process_time()
    _steps(supervisors, 300)
    assert {world.states[path] for path in chain} == {"running"}
    assert {world.states[path] for path in wide} == {"waiting"}
    # 2 % of a CPU at one step per second is 20 ms a step; the simulated world may take as much again.
    assert time.process_time() - began < 300 * 0.04
    world.end("c0")
    _steps(supervisors)
    assert {world.states[path] for path in wide} == {"running"}


def test_a_blocked_process_tells_since_when_it_is_blocked_and_waits_again(world: World) -> None:
    members = {"prepare": Member(), "train": Member(waits_for=(_wait("prepare", "completed"),))}
    supervisors = _supervisors_of(world, members=members)
    began = world.clock
    _steps(supervisors)
    world.clock += 100
    world.end("prepare", 3)
    _steps(supervisors)
    world.clock += 5
    _steps(supervisors)
    blocked = world.known["train"].hold
    assert blocked is not None
    assert (blocked.since, blocked.shown_since) == (began, began + 100)
    world.clock += 100
    world.start("prepare")
    _steps(supervisors)
    waiting = world.known["train"].hold
    assert waiting is not None
    assert (waiting.blocked, waiting.shown_since) == (False, world.clock)


def test_a_dependent_restarts_with_its_dependency_only_if_declared(world: World) -> None:
    members = {
        "server": Member(),
        "stays": Member(waits_for=(_wait("server"),)),
        "follows": Member(waits_for=(_wait("server", restart_with=True),)),
    }
    supervisors = _supervisors_of(world, members=members)
    _steps(supervisors, 3)
    starts = {path: world.known[path].start for path in members}
    world.start("server")
    _steps(supervisors, 3)
    assert world.known["stays"].start == starts["stays"]
    assert world.known["follows"].start != starts["follows"]
    starts = {path: world.known[path].start for path in members}
    _steps(supervisors, 5)
    assert {path: world.known[path].start for path in members} == starts


@pytest.mark.parametrize("code", [0, 1])
def test_a_dependent_runs_on_if_its_dependency_ends_without_a_restart(world: World, code: int) -> None:
    follows = Member(waits_for=(_wait("server", "started", restart_with=True),))
    supervisors = _supervisors_of(world, members={"server": Member(), "follows": follows})
    _steps(supervisors, 3)
    start = world.known["follows"].start
    world.end("server", code)
    _steps(supervisors, 3)
    assert (world.states["follows"], world.known["follows"].start) == ("running", start)


@pytest.mark.parametrize("fails", [["w1"], ["w0", "w2"], ["w0", "w1", "w2"]])
def test_equal_workers_restart_together(world: World, fails: list[str]) -> None:
    """Also one that restarted by itself, since it may have connected to one that was about to end."""
    paths = ("w0", "w1", "w2")
    members = {**dict.fromkeys(paths, Member()), "other": Member()}
    supervisors = _supervisors_of(world, members=members, equal=(paths,))
    _steps(supervisors, 5)
    before = dict(world.known)
    for path in fails:
        world.start(path)
    by_policy = dict(world.known)
    for _ in range(8):
        world.clock += 1
        _steps(supervisors, 1)
    assert set(world.states.values()) == {"running"}
    assert world.known["other"] == before["other"]
    restarted = {path for path in paths if world.known[path].start != by_policy[path].start}
    assert restarted == (set() if len(fails) == 3 else set(paths)), "all of them did that by themselves"
    settled = dict(world.known)
    for _ in range(8):
        world.clock += 1
        _steps(supervisors, 1)
    assert world.known == settled


def test_equal_workers_wait_for_the_last_one_to_end(world: World) -> None:
    paths = ("w0", "w1")
    supervisors = _supervisors_of(world, members=dict.fromkeys(paths, Member()), equal=(paths,))
    _steps(supervisors, 2)
    world.known["w0"] = Fact("ending", hold=Hold(since=world.clock))
    world.known["w1"] = Fact("held", hold=Hold(since=world.clock))
    _steps(supervisors, 3)
    assert {path: fact.state for path, fact in world.known.items()} == {"w0": "ending", "w1": "held"}
    world.hold("w0", Hold(since=world.clock))
    _steps(supervisors, 2)
    assert set(world.states.values()) == {"running"}


def test_readiness_needs_one_success_and_is_lost_after_consecutive_failures(world: World) -> None:
    probe = Probe(kind="exec", argv=("check",), period=1, failures=3)
    members = {"web": Member(readiness=probe), "client": Member(waits_for=(_wait("web"),))}
    supervisors = _supervisors_of(world, members=members)
    world.answer = "exit 1"
    _until(supervisors, lambda: "exit 1" in world.known["client"].hold.why)  # type: ignore[union-attr]
    world.answer, world.clock = "", world.clock + 2
    _until(supervisors, lambda: world.states["client"] == "running")
    world.answer = "exit 2"
    supervisor = next(supervisors)
    for failures in range(1, 4):
        world.clock += 1
        _settle(supervisor)
        assert read_state(world.saved).verdicts["web"].ready == (failures < 3)
    assert not world.restarted


def test_liveness_restarts_after_consecutive_failures_despite_a_hanging_probe(
    world: World,
) -> None:
    members = {f"hung{i}": Member(readiness=Probe(kind="exec", argv=("hang",))) for i in range(3)}
    members["web"] = Member(liveness=Probe(kind="exec", argv=("check",), period=1, failures=2))
    supervisors = _supervisors_of(world, members=members)
    world.answer = "no"
    began = time.monotonic()

    def advance() -> bool:
        world.clock += 1
        return bool(world.restarted)

    _until(supervisors, advance)
    assert time.monotonic() - began < 1
    assert world.restarted == ["web"]
    assert "liveness" in world.said[0][1]


def test_a_probe_by_http_fails_on_an_error_of_the_server(world: World) -> None:
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204 if self.path == "/health" else 500)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        probes = {
            path: Probe(kind="http", port=server.server_port, target=f"/{path}")
            for path in ("health", "other")
        }
        members = {path: Member(readiness=probe) for path, probe in probes.items()}
        _until(_supervisors_of(world, members=members), lambda: len(read_state(world.saved).verdicts) == 2)
        server.shutdown()
    verdicts = read_state(world.saved).verdicts
    assert (verdicts["health"].ready, verdicts["other"].ready) == (True, False)
    assert "500" in verdicts["other"].why


def test_a_primary_that_is_mended_and_completes_between_two_steps_ends_the_experiment(world: World) -> None:
    members = {"learner": Member(), "agent": Member()}
    supervisors = _supervisors_of(world, members=members, primary=("learner",))
    _steps(supervisors)
    for code, state in ((3, "failed"), (0, "completed")):
        world.start("learner")
        world.end("learner", code)
        _steps(supervisors, 2)
        end = read_state(world.saved).end
        assert end is not None
        assert end.state == state
        assert world.states["agent"] == "stopped"
    assert world.known["agent"].hold.stopped == "completed"  # type: ignore[union-attr]


@pytest.mark.parametrize("code", [0, 1])
def test_an_up_with_another_primary_starts_it_and_the_others_after_the_end(world: World, code: int) -> None:
    members = {"train": Member(), "agent": Member()}
    _steps(supervisors := _supervisors_of(world, members=members, primary=("train",)))
    world.end("train", code)
    _steps(supervisors, 2)
    assert world.states["agent"] == "stopped"
    if code:
        # The failed primary is renamed.
        del world.known["train"], members["train"]
    members["evaluate"] = Member()
    _steps(_supervisors_of(world, members=members, primary=("evaluate",)), 3)
    assert (world.states["evaluate"], world.states["agent"]) == ("running", "running")


def test_a_primary_that_appears_after_another_failed_does_not_resume_the_experiment(world: World) -> None:
    """An `up` of a thousand processes still starts some when the first has failed."""
    members = {"train": Member(), "agent": Member(), "late": Member()}
    supervisors = _supervisors_of(world, members=members, primary=("train", "late"))
    del world.known["late"]
    _steps(supervisors)
    world.end("train", 1)
    _steps(supervisors, 2)
    world.start("late")
    _steps(supervisors, 2)
    assert (world.states["late"], world.states["agent"]) == ("stopped", "stopped")


def test_a_process_that_resumes_with_its_primary_waits_for_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listings, which may look in between, must not say `waiting: for `."""
    members = {"learner": Member(), "agent": Member(), "late": Member(waits_for=(_wait("agent", "ready"),))}
    supervisors = _supervisors_of(world, members=members, primary=("learner",))
    _steps(supervisors, 2)
    world.end("learner")
    _steps(supervisors, 2)
    holds: dict[str, Hold] = {}
    hold = world.hold
    monkeypatch.setattr(world, "hold", lambda path, why: (holds.setdefault(path, why), hold(path, why)))
    world.start("learner")
    _steps(supervisors, 3)
    assert {path: hold.is_over for path, hold in holds.items()} == {"agent": True, "late": False}
    assert set(world.states.values()) == {"running"}


def test_stop_after_warns_stops_all_and_restarts_counting_after_up(world: World) -> None:
    members = {"prepare": Member(), "learner": Member(waits_for=(_wait("prepare", "completed"),))}
    supervisors = _supervisors_of(world, members=members, stop_after=28800.0)
    world.clock += 28800 - 601
    _steps(supervisors, 2)
    assert not world.said
    world.clock += 2
    _steps(supervisors, 3)
    [(path, line)] = world.said
    assert path == "prepare"
    assert "9m 59s" in line
    assert "8h" in line
    world.clock += 600
    _steps(supervisors, 2)
    assert world.states == {"prepare": "stopped", "learner": "stopped"}
    stopped = world.known["prepare"].hold
    assert stopped is not None
    assert "limit of 8h" in stopped.why
    world.start("prepare")
    world.hold("learner", Hold(waits_for=members["learner"].waits_for))
    _steps(supervisors, 2)
    assert world.states == {"prepare": "running", "learner": "waiting"}
    world.clock += 28000
    _steps(supervisors)
    assert world.states["prepare"] == "running"


def test_stop_after_counts_anew_once_all_had_ended(world: World) -> None:
    supervisors = _supervisors_of(world, members={"a": Member()}, stop_after=28800.0)
    _steps(supervisors, 2)
    world.end("a")
    _steps(supervisors, 2)
    world.clock += 86400
    _steps(supervisors)
    world.start("a")
    _steps(supervisors, 2)
    world.clock += 28000
    _steps(supervisors)
    assert world.states["a"] == "running"
    world.clock += 801
    _steps(supervisors, 2)
    assert world.states["a"] == "stopped"


def test_a_restart_after_a_limit_starts_no_other_process(world: World) -> None:
    supervisors = _supervisors_of(world, members={"a": Member(), "b": Member()}, stop_after=10.0)
    world.clock += 11
    _steps(supervisors, 2)
    assert world.states == {"a": "stopped", "b": "stopped"}
    world.start("a")
    _steps(supervisors, 3)
    assert world.states == {"a": "running", "b": "stopped"}


def test_the_warning_comes_at_half_of_a_limit_of_ten_minutes(world: World) -> None:
    supervisors = _supervisors_of(world, members={"a": Member()}, stop_after=600.0)
    world.clock += 298
    _steps(supervisors, 1)
    assert not world.said
    world.clock += 2
    _steps(supervisors, 2)
    assert len(world.said) == 1


def test_idle_after_counts_time_without_output_and_cpu_use(world: World) -> None:
    members = {"a": Member(), "b": Member()}
    supervisor = next(_supervisors_of(world, members=members, idle_after=1800.0))
    for turn in range(100):
        world.clock += 31
        # 0.1 % of a CPU counts as idle.
        world.work = {"a": (turn * 0.03, 0), "b": (0, min(turn, 50))}
        supervisor.step()
        assert set(world.states.values()) == {"running"}
    world.clock += 400
    supervisor.step()
    assert set(world.states.values()) == {"stopped"}
    assert {path for path, _ in world.said} == {"a", "b"}


@pytest.mark.parametrize(
    ("first", "more", "told"),
    [
        ("a", {}, "rl failed 3 90 printed by b"),
        ("silent", {"stop_after": 60.0}, "rl stopped 124 90 printed by b"),
        ("a", {"stop_after": 60.0, "primary": ("b",)}, "rl stopped 124 90 printed by b"),
    ],
    ids=["end", "limit", "limit-with-primary"],
)
def test_notify_runs_once_at_the_end_with_the_last_lines_of_the_process_that_matters(
    world: World, tmp_path: Path, first: str, more: dict[str, Any], told: str
) -> None:
    file = tmp_path / "told"
    notify = ("sh", "-c", f"echo $NAME $STATE $EXIT $SECONDS $LAST_LINES >>{file}")
    supervisors = _supervisors_of(world, members={first: Member(), "b": Member()}, notify=notify, **more)
    _steps(supervisors)
    world.clock += 90
    if not more:
        world.end("a")
        world.end("b", 3)
    _steps(supervisors, 5)
    wait_for(lambda: file.exists() and file.read_text(), 10, "notify has run")
    time.sleep(0.3)
    assert file.read_text() == f"{told}\n"


def test_a_blocked_process_continues_after_up_although_the_experiment_had_ended(world: World) -> None:
    members = {"prepare": Member(), "late": Member(waits_for=(_wait("prepare", "completed"),))}
    supervisors = _supervisors_of(world, members=members, notify=("true",))
    _steps(supervisors)
    world.hold("late", Hold(waits_for=members["late"].waits_for, blocked=True, why="its code has changed"))
    world.end("prepare", 1)
    _steps(supervisors, 2)
    assert read_state(world.saved).end is not None
    world.known["prepare"] = Fact("completed", start=world.known["prepare"].start)
    world.hold("late", Hold(waits_for=members["late"].waits_for))
    _steps(supervisors, 2)
    assert world.states["late"] == "running"


class Killed(BaseException):
    """The end of a supervisor in the middle of a step."""


class DeadlyWorld(World):
    """A world in which the supervisor is killed once, before one of its actions."""

    def __init__(self, deeds: int) -> None:
        super().__init__()
        self.deeds = deeds

    def _do(self) -> None:
        self.deeds -= 1
        if self.deeds == 0:
            raise Killed

    def hold(self, path: str, hold: Hold) -> None:
        self._do()
        super().hold(path, hold)

    def release(self, path: str) -> str:
        self._do()
        return super().release(path)

    def save(self, state: bytes) -> None:
        self._do()
        super().save(state)


def _run_scenario(world: World) -> tuple[dict[str, str], int]:
    """Run dependencies, a restart with another process and an end; return the last states and all starts."""
    members = {
        "prepare": Member(),
        "server": Member(ports=(1,), termination_delay=5),
        "train": Member(waits_for=(_wait("prepare", "completed"),)),
        "follows": Member(waits_for=(_wait("server", restart_with=True),)),
    }
    declared = Declaration(name="rl", members=members, primary=("train",))
    for path, member in members.items():
        world.start(path)
        if member.waits_for:
            World.hold(world, path, Hold(waits_for=member.waits_for, since=world.clock))
    supervisor = Supervisor(world, declared)

    def steps() -> None:
        nonlocal supervisor
        for _ in range(3):
            world.clock += 1
            try:
                supervisor.step()
            except Killed:
                supervisor = Supervisor(world, declared)

    steps()
    world.listening = {1}
    world.end("prepare")
    steps()
    world.start("server")
    steps()
    world.end("train")
    steps()
    world.clock += 5
    steps()
    return world.states, world.starts


def test_killing_the_supervisor_before_any_action_changes_no_outcome() -> None:
    calm = DeadlyWorld(0)
    expected = _run_scenario(calm)
    assert expected[0] == {
        "prepare": "completed",
        "server": "stopped",
        "train": "completed",
        "follows": "stopped",
    }
    for deeds in range(1, 1 - calm.deeds):
        assert _run_scenario(DeadlyWorld(deeds)) == expected, f"killed before deed {deeds}"


def test_a_damaged_saved_state_is_ignored(world: World) -> None:
    for saved in (b"", b"null", b"\xff", b'{"verdicts": 3}', b"[" * 10000):
        world.saved = saved
        supervisors = _supervisors_of(world, members={"a": Member()})
        _steps(supervisors, 2)


@pytest.mark.parametrize("seed", range(20))
def test_after_random_ends_and_restarts_all_processes_come_up(world: World, seed: int) -> None:
    """Dependencies restart or fail while others wait for them."""
    chance = random.Random(seed)
    conditions = ("started", "ready", "completed", "ended")
    members = {"p0": Member()}
    for i in range(1, 12):
        dependencies = chance.sample(sorted(members), k=min(len(members), chance.randint(0, 2)))
        waits = tuple(
            _wait(path, chance.choice(conditions), restart_with=chance.random() < 0.3)
            for path in dependencies
        )
        members[f"p{i}"] = Member(waits_for=waits, ports=(i,) if chance.random() < 0.3 else ())
    supervisors = _supervisors_of(world, members=members)
    declared = Declaration(name="rl", members=members)
    for _ in range(100):
        path, action = chance.choice(sorted(members)), chance.random()
        if path in world.known and world.known[path].state == "running" and action < 0.5:
            world.end(path, chance.choice([0, 0, 1]))
        elif path in world.known and action < 0.6:
            world.start(path)
        elif action < 0.7:
            world.known.pop(path, None)
        elif action < 0.9:
            world.listening ^= {chance.randint(1, 11)}
        world.clock += chance.choice([0.1, 1, 100])
        _steps(supervisors)
    # The user runs `up` again, and everything works.
    world.listening = set(range(12))
    awaited = {
        wait.path
        for each in members.values()
        for wait in each.waits_for
        if wait.condition in ("completed", "ended")
    }
    for turn in range(40):
        world.up(declared)
        _steps(supervisors)
        for path in awaited:
            # A server ends last, since it is not ready after that.
            if world.states[path] == "running" and (turn > 30 or not members[path].ports):
                world.end(path)
        _steps(supervisors)
    _steps(supervisors, 15)
    assert not {
        path: state
        for path, state in world.states.items()
        if state == "blocked" and not _may_block(path, world, members)
    }


def _may_block(path: str, world: World, members: Mapping[str, Member]) -> bool:
    """Return whether it waits for a blocked process, or for the readiness of a server that has ended."""
    waits = members[path].waits_for
    return any(
        (wait.condition == "ready" and members[wait.path].ports and world.states[wait.path] == "completed")
        or world.states[wait.path] == "blocked"
        for wait in waits
    )


def _settle(supervisor: Supervisor) -> None:
    """Let the probes that are due answer."""
    for _ in range(3):
        supervisor.step()
        time.sleep(0.02)
