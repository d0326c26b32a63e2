"""Changed code and `symphony restart` restart the right processes and no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.backend import Backend, Snapshot

pytestmark = pytest.mark.thorough

STACK = "coded.once"
PROGRAM = """
with Experiment() as e:
    probe(e, "server", "bind=alpha")
    probe(e, "agent", "reach=alpha", code=["agents/", "agent.py"])
    group = e.new_process_group("group", code="agents/*.py")
    probe(group, "one", "reach=alpha")
    probe(group, "two", "reach=alpha")
"""
EDITED = PROGRAM.replace('"agent", "reach=alpha"', '"agent", "reach=alpha", "say=later"')
ALL = {"server", "agent", "group/one", "group/two"}


@pytest.fixture(scope="module")
def running_experiment(backend: Backend) -> Iterator[None]:
    """Bring the experiment up with its code."""
    for name in ("agents/net.py", "agents/data.txt", "agent.py"):
        file = backend.sandbox.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("first")
    (backend.sandbox.folder / ".gitignore").write_text("*.log\n")
    _up(backend)
    try:
        yield
        backend.delete(STACK)
        assert backend.leftovers(STACK) == []
    finally:
        backend.forget(STACK)


def _up(backend: Backend, program: str = PROGRAM) -> tuple[str, Snapshot]:
    plan = backend.up(STACK, program).out
    return plan, _snapshot(backend)


def _snapshot(backend: Backend) -> Snapshot:
    for path in ALL:
        backend.becomes(STACK, path, "running")
    return backend.snapshot(STACK)


def _edit(backend: Backend, name: str, text: str) -> None:
    (backend.sandbox.folder / name).write_text(text)


def _reason(plan: str, path: str) -> str:
    (row,) = [line for line in plan.splitlines() if line.split()[1:2] == [path]]
    return row.partition("code: ")[2].partition("  ")[0].partition(";")[0]


def test_processes_whose_code_changed_restart_and_the_plan_lists_the_files(
    backend: Backend, running_experiment: None
) -> None:
    before = _snapshot(backend)
    _edit(backend, "agents/data.txt", "second")
    _edit(backend, "agents/run.log", "is ignored")
    plan, after = _up(backend)
    assert after.same(before) == ALL - {"agent"}
    assert _reason(plan, "agent") == "agents/data.txt"

    _edit(backend, "agents/net.py", "second")
    _edit(backend, "agents/new.py", "second")
    plan, last = _up(backend)
    assert last.same(after) == {"server"}
    for path in ("agent", "group/one..two" if "group/one..two" in plan else "group/one"):
        assert _reason(plan, path) == "agents/net.py, agents/new.py"
    plan, same = _up(backend)
    assert same.same(last) == ALL
    assert f"`symphony restart {STACK}`" in plan


def test_restart_restarts_one_process_and_keeps_its_address(
    backend: Backend, running_experiment: None
) -> None:
    before = _snapshot(backend)
    ran = backend.sandbox.symphony("restart", STACK, "server", timeout=60 * backend.patience)
    assert "3 unchanged" in ran.out
    after = _snapshot(backend)
    assert after.same(before) == ALL - {"server"}
    backend.speaks(STACK, "server", "services")
    own = backend.snapshot(STACK).services["server"]
    assert {name: own[name] for name in own if name.startswith("SYMPH_ALPHA")} == {
        name: value for name, value in before.services["server"].items() if name.startswith("SYMPH_ALPHA")
    }
    assert _up(backend)[1].same(after) == ALL, "plan and state agree with what runs"


def test_restart_names_the_processes_of_the_same_pod_that_restart_too(
    backend: Backend, running_experiment: None
) -> None:
    before = _snapshot(backend)
    shares = backend.shares_fate("group/one", ALL)
    ran = backend.sandbox.symphony("restart", STACK, "group/one", "-y", timeout=60 * backend.patience)
    assert ("group/two restarts as well" in ran.out) is ("group/two" in shares)
    assert _snapshot(backend).same(before) == ALL - shares


def test_after_restart_of_one_process_the_plan_still_lists_files_of_others(
    backend: Backend, running_experiment: None
) -> None:
    _edit(backend, "agents/net.py", "third")
    backend.sandbox.symphony("restart", STACK, "agent", timeout=60 * backend.patience)
    plan = backend.sandbox.symphony("plan", STACK).out
    assert {_reason(plan, path) for path in ("group/one", "group/two") if path in plan} == {"agents/net.py"}
    _edit(backend, "agents/data.txt", "third")
    plan, _ = _up(backend)
    assert _reason(plan, "agent") == "agents/data.txt"


def test_restart_does_not_apply_other_edits(backend: Backend, running_experiment: None) -> None:
    before = _snapshot(backend)
    backend.prepare(STACK, EDITED)
    backend.sandbox.symphony("restart", STACK, "server", timeout=60 * backend.patience)
    after = _snapshot(backend)
    assert after.same(before) == ALL - {"server"}
    assert _up(backend, EDITED)[1].same(after) == ALL - {"agent"}


def test_restart_does_not_stop_undeclared_processes(backend: Backend, running_experiment: None) -> None:
    before = _snapshot(backend)
    for program in (
        PROGRAM.replace('"server"', '"other"'),
        PROGRAM.replace("Experiment()", 'Experiment("e")'),
    ):
        backend.prepare(STACK, program)
        ran = backend.sandbox.symphony("restart", STACK, "server", code=2, timeout=60 * backend.patience)
        assert "no longer declares" in ran.err
    assert _snapshot(backend).same(before) == ALL


def test_restart_refuses_a_new_order_and_a_new_service(backend: Backend, running_experiment: None) -> None:
    before = _snapshot(backend)
    for edit in ('depends_on="server"', 'binds="beta"'):
        backend.prepare(STACK, PROGRAM.replace('["agents/", "agent.py"]', f'["agents/", "agent.py"], {edit}'))
        ran = backend.sandbox.symphony("restart", STACK, "agent", code=2, timeout=60 * backend.patience)
        assert f"`symphony up {STACK}`" in ran.err
    assert _snapshot(backend).same(before) == ALL
