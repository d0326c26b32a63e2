"""One file of the experiment has the variables of all services; each process reads it when it starts."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symphony_tmux import variables
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import sessions, windows

ALL = {"SYMPH_PS_ADDR": "127.0.0.1:7", "SYMPH_X_ADDR": "127.0.0.1:8"}
VALUE = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.from_regex(r"\A[A-Z_]{1,6}\Z"), VALUE | st.text("'\n\\", max_size=6), max_size=4))
def test_service_variables_written_to_the_file_are_read_back(home: Path, declared: dict[str, str]) -> None:
    assert not variables.has_services("default", "rl", {"NEVER": "written"})
    variables.write_services("default", "rl", declared)
    assert variables.read_services("default", "rl") == declared
    assert variables.has_services("default", "rl", declared)
    assert stat.S_IMODE(variables.services_file("default", "rl").stat().st_mode) == 0o600


def test_without_the_file_there_are_no_service_variables(home: Path) -> None:
    assert variables.read_services("default", "rl") == {}
    assert not variables.has_services("default", "rl", {})


def test_a_changed_address_updates_the_session_and_processes_that_use_it(rig: Any) -> None:
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


def test_update_rewrites_a_lost_services_file(rig: Any) -> None:
    old = rig.session("a", services=ALL)
    declared = rig.session_inputs("a", services=ALL)
    assert (sessions.diff(old, declared, Snapshot()).changed, sessions.reason(declared, Snapshot())) == (
        (),
        "",
    )
    variables.services_file("default", "rl").unlink()
    assert (
        sessions.reason(declared, Snapshot()) == "the file with its service addresses is missing or damaged"
    )
    assert sessions.diff(old, declared, Snapshot()).changed == ("services",)
    sessions.update(old, declared, Snapshot())
    assert variables.read_services("default", "rl") == ALL
