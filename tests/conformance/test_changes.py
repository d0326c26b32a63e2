"""Edits of a program: processes that an edit does not affect keep running with their addresses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.backend import Backend, Snapshot
from tests.conformance.local_backend import LocalBackend

STACK = "edited.twice"
START = """
with Experiment() as e:
    probe(e, "server", "bind=alpha")
    probe(e, "client", "reach=alpha", "say=%(word)s")
    group = e.new_process_group("group")
    probe(group, "one", "reach=alpha")
    probe(group, "two", "bind=beta")
    probe(e, "done", "exit=0")
%(more)s
"""
ADDED = """
    probe(e, "late", "bind=gamma", "reach=alpha")
"""
USED = """
    probe(e, "late", "bind=gamma", "reach=alpha", "reach=beta")
"""
STEPS = {
    "started": START % {"word": "first", "more": ""},
    "nothing": START % {"word": "first", "more": ""},
    "edited": START % {"word": "second", "more": ADDED},
    "connected": START % {"word": "second", "more": USED},
    "removed": START.replace('probe(group, "two", "bind=beta")', "pass") % {"word": "second", "more": ADDED},
}


@pytest.fixture(scope="module")
def history(backend: Backend) -> Iterator[dict[str, Snapshot]]:
    """Yield the experiment after each step."""
    result: dict[str, Snapshot] = {}
    for name, program in STEPS.items():
        plan = backend.up(STACK, program).out
        backend.all_speak(STACK, ("server", "client", "group/one"), "ready")
        backend.becomes(STACK, "done", "completed")
        result[name] = backend.snapshot(STACK)
        result[name].statuses["plan"] = {"text": plan}  # type: ignore[index]
    try:
        yield result
        backend.delete(STACK)
        assert backend.leftovers(STACK) == []
    finally:
        backend.forget(STACK)


ALWAYS = {"server", "client", "group/one", "group/two"}


def test_up_without_an_edit_changes_nothing(history: dict[str, Snapshot]) -> None:
    assert history["nothing"].same(history["started"]) == ALWAYS
    assert "Nothing changes" in history["nothing"].statuses["plan"]["text"]


def test_only_the_edited_process_restarts(history: dict[str, Snapshot]) -> None:
    """A process and a service that are added at the same time restart no other process."""
    before, after = history["nothing"], history["edited"]
    assert after.same(before) == ALWAYS - {"client"}
    assert set(after.identities) == ALWAYS | {"late"}
    assert after.services["late"]["SYMPH_GAMMA_ADDR"]
    assert after.statuses["client"]["restarts"] == 0, "a restart by `up` is not counted"
    assert after.statuses["client"]["since"] > before.statuses["client"]["since"]
    assert {path: after.statuses[path]["since"] for path in ALWAYS - {"client"}} == {
        path: before.statuses[path]["since"] for path in ALWAYS - {"client"}
    }


def test_the_plan_lists_restarts_with_reasons(history: dict[str, Snapshot]) -> None:
    rows = [line.split() for line in history["edited"].statuses["plan"]["text"].splitlines()]
    (row,) = [row for row in rows if row[:2] == ["~", "client"]]
    assert row[2] == "restart"
    assert "args:" in row or "argv:" in row or any("second" in word for word in row)


def test_addresses_do_not_change(history: dict[str, Snapshot]) -> None:
    first = history["started"].services["server"]
    for name in ("edited", "connected", "removed"):
        now = history[name].services["client"]
        assert {key: now[key] for key in now if key.startswith("SYMPH_ALPHA")} == {
            key: first[key] for key in first if key.startswith("SYMPH_ALPHA") and not key.endswith("_BIND")
        }


def test_a_new_connection_restarts_only_the_connecting_process(history: dict[str, Snapshot]) -> None:
    assert history["connected"].same(history["edited"]) == ALWAYS


def test_only_the_removed_process_stops(backend: Backend, history: dict[str, Snapshot]) -> None:
    """On Kubernetes, the processes of its group share its pod and restart."""
    before, after = history["connected"], history["removed"]
    assert after.same(before) == ALWAYS - backend.shares_fate("group/two", ALWAYS)
    assert set(after.identities) == ALWAYS - {"group/two"} | {"late"}
    assert "group/two" not in after.identities
    assert "group/two" not in after.statuses


def test_a_completed_process_is_not_restarted(history: dict[str, Snapshot]) -> None:
    ends = {name: moment.statuses["done"]["since"] for name, moment in history.items()}
    assert len(set(ends.values())) == 1
    assert {moment.statuses["done"]["restarts"] for moment in history.values()} == {0}


def test_another_namespace_restarts_every_process(backend: Backend) -> None:
    """The next `up` finds them running, at the addresses that are leased to them."""
    if not isinstance(backend, LocalBackend):
        pytest.skip("only a session or a job is replaced; pods of another namespace are other resources")
    stack, program = "moved", START % {"word": "first", "more": ""}
    try:
        backend.up(stack, program)
        before = backend.identities(stack)
        backend.up(stack, program, namespace="elsewhere")
        backend.all_speak(stack, ("server", "client", "group/one"), "ready")
        after = backend.identities(stack)
        assert set(after) == ALWAYS
        assert not {path for path in ALWAYS if after[path] == before[path]}
        assert "Nothing changes" in backend.up(stack, program).out
    finally:
        backend.delete(stack)
        assert backend.leftovers(stack) == []
        backend.forget(stack)
