"""The changes of an `up` for each process, and their reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from symphony.plan.changes import (
    Change,
    Component,
    Components,
    changes,
    digest_of_supervision,
    with_followers,
)


def rows(recorded: Any, planned: Any, restart_reasons: Any = None) -> list[tuple[str, str, str]]:
    """Rows of processes whose fingerprints are their inputs."""
    components = Components(
        Component({"processes": [*recorded]}, {"processes": [*planned]}),
        {},
        {
            path: Component(recorded.get(path, {}), {**new, "fingerprint": str(new)})
            for path, new in planned.items()
        },
    )
    fingerprints = {path: str(old) for path, old in recorded.items()}
    return [(row.path, row.kind, row.why) for row in changes(fingerprints, components, restart_reasons or {})]


def test_changes_are_in_the_order_of_the_plan_followed_by_stops():
    recorded = {
        "gone-10": {"args": []},
        "gone-9": {"args": []},
        "same": {"args": []},
        "other": {"args": ["a"]},
    }
    planned = {"other": {"args": ["b"]}, "new": {"args": []}, "same": {"args": []}}
    assert rows(recorded, planned) == [
        ("other", "restart", "args: a -> b"),
        ("new", "start", "new"),
        ("same", "keep", ""),
        ("gone-9", "stop", "no longer declared"),
        ("gone-10", "stop", "no longer declared"),
    ]


def test_another_partition_is_a_reason() -> None:
    old = {"args": [], "place": {"partition": "cpu", "cpu": 1}}
    new = {"args": [], "place": {"partition": "gpu", "cpu": 2}}
    assert rows({"a": old}, {"a": new}) == [("a", "restart", "place partition: cpu -> gpu")]


def test_another_allocation_is_a_reason_without_its_digests() -> None:
    assert rows({"a": {"allocation": "b1ad"}}, {"a": {"allocation": "c0ae"}}) == [
        ("a", "restart", "a new allocation")
    ]


def test_a_process_restarted_by_others_in_its_pod_names_them() -> None:
    def inputs(own: str, pod: str) -> dict[str, Any]:
        return {"args": [own], "fingerprint": pod}

    old = {"g/a": inputs("1", "old"), "g/x": inputs("1", "old"), "g/y": inputs("2", "old")}
    new = {"g/a": inputs("1", "new"), "g/y": inputs("3", "new"), "g/z": inputs("4", "new")}
    components = Components(
        Component({"processes": [*old]}, {"processes": [*new]}),
        {},
        {path: Component(old.get(path, {}), each) for path, each in new.items()},
    )
    first, *_ = changes(dict.fromkeys(old, "old"), components, {})
    assert first.reasons == ("x leaves its pod, y changes in its pod, z joins its pod",)


def test_changed_settings_of_group_and_experiment_are_reasons() -> None:
    components = Components(
        Component({"inherit": []}, {"inherit": ["DISPLAY"]}),
        {"g": Component({"pod": {"restart_policy": "Never"}}, {"pod": {"restart_policy": "Always"}})},
        {
            "g/a": Component(
                {"path": "g/a", "image": "a"}, {"path": "g/a", "image": "b", "fingerprint": "new"}
            )
        },
    )
    (change,) = changes({"g/a": "old"}, components, {}, frozenset({"image"}))
    assert set(change.reasons) == {"restart_policy: Never -> Always", "inherit: nothing -> DISPLAY"}


def test_processes_not_reached_by_an_interrupted_run_restart() -> None:
    same = Component({"args": ["1"]}, {"args": ["1"], "fingerprint": "new"})
    (change,) = changes({"a": "old"}, Components(Component(), {}, {"a": same}), {})
    assert change.kind == "restart"
    assert change.reasons


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (["--lr", "1e-3"], ["--lr", "3e-4"], "args: --lr 1e-3 -> 3e-4"),
        (["a.py", "--lr", "1e-3", "-v"], ["a.py", "--lr", "3e-4", "-v"], "args: --lr 1e-3 -> 3e-4"),
        (["--lr", "1"], ["--lr", "1", "-v"], "args: nothing -> -v"),
        (["--lr", "1", "-v"], ["--lr", "1"], "args: -v -> nothing"),
        (["a"], ["b"], "args: a -> b"),
        (["a", "a"], ["a"], "args: a -> nothing"),
        (None, ["a", "b"], "args: nothing -> a b"),
        (["a", "b"], None, "args: a b -> nothing"),
        (["x" * 100], ["b"], f"args: {'x' * 59}… -> b"),
        (["a\n\x1b[2J"], ["b"], r"args: a\n\x1b[2J -> b"),
        ("/a", "/b", "args: /a -> /b"),
        (None, "/b", "args: nothing -> /b"),
        ("", "/b", "args: nothing -> /b"),
        (1, 2, "args: 1 -> 2"),
        ({"A": "1", "B": "2"}, {"A": "2", "C": "3", "B": "2"}, "args A: 1 -> 2, args C: nothing -> 3"),
        (None, {"A": "x"}, "args A: nothing -> x"),
        ({"A": "x"}, None, "args A: x -> nothing"),
    ],
)
def test_reasons_show_old_and_new_value_of_an_input(before, after, why):
    assert rows({"a": {"args": before}}, {"a": {"args": after}}) == [("a", "restart", why)]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"LR": "0.1"}, {"LR": "0.2"}, "env LR: 0.1 -> 0.2"),
        ({"HF_TOKEN": "old"}, {"HF_TOKEN": "new"}, "env HF_TOKEN: changed"),
        ({"WANDB_API_KEY": "old"}, {}, "env WANDB_API_KEY: changed"),
        ({"DB": "a"}, {"DB": "postgres://me:word@host/x"}, "env DB: changed"),
        (
            {"SYMPH_REPLAY_SERVER_PORT": "7001", "SYMPH_REPLAY_SERVER_ADDR": "h:7001"},
            {"SYMPH_REPLAY_SERVER_PORT": "7002", "SYMPH_REPLAY_SERVER_ADDR": "h:7002"},
            "port of replay-server: 7001 -> 7002",
        ),
    ],
)
def test_reasons_show_values_of_variables_but_only_names_of_secrets(before, after, why):
    assert rows({"a": {"env": before}}, {"a": {"env": after}}) == [("a", "restart", why)]


def test_a_new_probe_is_named_by_what_it_asks_for() -> None:
    probe = {"readiness_probe": {"log": "Listening", "period_seconds": 2, "failure_threshold": 3}}
    assert rows({"a": {"args": []}}, {"a": {"args": [], **probe}}) == [
        ("a", "restart", "readiness_probe log: nothing -> Listening")
    ]


def test_processes_that_restart_with_another_are_in_the_plan() -> None:
    """The plan must not say `keep` of a process that the supervisor will restart with another."""
    with_server = {"waits_for": [{"path": "server", "condition": "ready", "restart_with": True}]}
    with_client = {"waits_for": [{"path": "client", "condition": "ready", "restart_with": True}]}
    alone = {"waits_for": [{"path": "server", "condition": "ready"}]}
    workers = {"service_env": {"SYMPHONY_RENDEZVOUS": "SYMPH_TRAIN_RENDEZVOUS"}}
    inputs = {
        "last": with_client,
        "client": with_server,
        "other": alone,
        "train-0": workers,
        "train-1": workers,
    }
    components = Components(Component(), {}, {path: Component(new=new) for path, new in inputs.items()})
    rows = (Change("server", "restart", ("env",)), *(Change(path, "keep") for path in inputs))

    def followers(rows: Iterable[Change], completed: Collection[str] = ()) -> dict[str, str]:
        restarting = with_followers(rows, components, completed.__contains__)
        return {row.path: row.why for row in restarting if row.follows}

    assert followers(rows) == {"client": "restarts with server", "last": "restarts with client"}
    assert followers(rows, completed=["client"]) == {}
    rows = (*(Change(path, "keep") for path in inputs if path != "train-1"), Change("train-1", "restart"))
    assert [*followers(rows)] == ["train-0"]


def test_state_and_input_reasons_are_combined():
    recorded = {"a": {"args": ["1"], "start_dir": "/a"}, "b": {}}
    planned = {"a": {"args": ["2"], "start_dir": "/b"}, "b": {}}
    assert rows(recorded, planned, {"a": "window closed", "b": "exit 1"}) == [
        ("a", "restart", "window closed; args: 1 -> 2; start_dir: /a -> /b"),
        ("b", "restart", "exit 1"),
    ]


def test_change_as_json():
    change = Change("a", "restart", ("exit 1", "args: 1 -> 2"))
    assert change.to_json() == {"path": "a", "kind": "restart", "why": ["exit 1", "args: 1 -> 2"]}


def test_the_digest_of_the_supervision_is_the_same_for_inputs_of_the_state() -> None:
    wait = {"path": "a", "condition": "ready", "timeout": 600.0}
    of_program = {"command": ["x"], "binds": [], "waits_for": [{**wait, "restart_with": None}]}
    of_state = {"command": ["y"], "waits_for": [{**wait, "timeout": 600}]}
    assert digest_of_supervision(of_program) == digest_of_supervision(of_state)
    assert digest_of_supervision(of_program) != digest_of_supervision({})
