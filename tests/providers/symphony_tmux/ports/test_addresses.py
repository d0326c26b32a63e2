"""The variables of all services are in one file of the experiment, which every starting process reads."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symphony_tmux import variables
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import sessions, windows

ALL = {"SYMPH_PS_ADDR": "127.0.0.1:7", "SYMPH_X_ADDR": "127.0.0.1:8"}
VALUE = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.from_regex(r"\A[A-Z_]{1,6}\Z"), VALUE | st.text("'\n\\", max_size=6), max_size=4))
def test_written_variables_are_read(home: Path, declared: dict[str, str]) -> None:
    assert not variables.has_services("default", "rl", {"NEVER": "written"})
    variables.write_services("default", "rl", declared)
    assert variables.read_services("default", "rl") == declared
    assert variables.has_services("default", "rl", declared)
    assert stat.S_IMODE(variables.services_file("default", "rl").stat().st_mode) == 0o600


def test_without_its_file_nothing_is_told(home: Path) -> None:
    assert variables.read_services("default", "rl") == {}
    assert not variables.has_services("default", "rl", {})


def _seen(rig: Any, outputs: dict[str, Any]) -> dict[str, str]:
    rig.ended(outputs)
    result = dict(entry.split("=", 1) for entry in rig.printed(outputs).decode().split("\0") if entry)
    return {name: value for name, value in result.items() if name.startswith("SYMPH_")}


def test_every_process_sees_all_though_its_own_inputs_do_not(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They win over inherited variables of an outer experiment, and lose to declared ones."""
    monkeypatch.setenv("SYMPH_X_ADDR", "outer")
    monkeypatch.setenv("SYMPH_OUTER_ADDR", "outer")
    rig.session("a", "b", services=ALL)
    show = ("cat", "/proc/self/environ")
    a = rig.start("a", *show, inherit=["SYMPH_*"])
    assert _seen(rig, a) == {**ALL, "SYMPH_OUTER_ADDR": "outer"}
    b = rig.start("b", *show, services={"SYMPH_PS_BIND": "::"}, env={"SYMPH_X_ADDR": "mine"})
    assert _seen(rig, b) == {**ALL, "SYMPH_PS_BIND": "::", "SYMPH_X_ADDR": "mine"}
    assert "SYMPH_PS_ADDR" not in str([a, b])


def test_another_address_changes_the_session_and_who_uses_it(rig: Any) -> None:
    old = rig.session("a", "b", services=ALL)
    a = rig.start("a", "sleep", "100", services={"SYMPH_PS_ADDR": "127.0.0.1:7"})
    b = rig.start("b", "sleep", "100")
    moved = {**ALL, "SYMPH_PS_ADDR": "127.0.0.1:9"}
    declared = rig.session_inputs("a", "b", services=moved)
    assert sessions.diff(old, declared, Snapshot()).changed == ("services",)
    new = sessions.update(old, declared, Snapshot())
    assert variables.read_services("default", "rl") == new["services"] == moved
    assert sessions.diff(new, declared, Snapshot()).changed == ()
    assert windows.diff(b, rig.inputs("b", "sleep", "100"), Snapshot()).changed == ()
    used = rig.inputs("a", "sleep", "100", services={"SYMPH_PS_ADDR": "127.0.0.1:9"})
    assert windows.diff(a, used, Snapshot()).changed == ("services",)
    assert (rig.condition(a).state, rig.condition(b).state) == ("running", "running")


def test_a_lost_file_is_written_again(rig: Any) -> None:
    old = rig.session("a", services=ALL)
    declared = rig.session_inputs("a", services=ALL)
    assert (sessions.diff(old, declared, Snapshot()).changed, sessions.reason(declared, Snapshot())) == (
        (),
        "",
    )
    variables.services_file("default", "rl").unlink()
    assert sessions.reason(declared, Snapshot()) == "the file of its services is gone or damaged"
    assert sessions.diff(old, declared, Snapshot()).changed == ("services",)
    sessions.update(old, declared, Snapshot())
    assert variables.read_services("default", "rl") == ALL
