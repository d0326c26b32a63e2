"""Which changes of window inputs restart a process; a reason to repair it is no change of an input."""

from __future__ import annotations

from typing import Any

import pytest

from symphony_tmux.resource.changes import changes, digest

BASE: dict[str, Any] = {
    "session": "rl",
    "server": "default",
    "owner": "p/rl#1",
    "path": "a",
    "argv": ["python", "a.py"],
    "cwd": "/x",
    "env": {"A": "1"},
    "services": {"SYMPH_PS_HOST": "127.0.0.1", "SYMPH_PS_PORT": "20000"},
    "inherit": ["A*", "B"],
    "grace": 5.0,
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"argv": ["python", "b.py"]}, ["argv"]),
        ({"argv": None, "script": ["x"]}, ["argv", "script"]),
        ({"preamble": ["x"]}, ["preamble"]),
        ({"preamble": []}, []),
        ({"restart_policy": "Always"}, ["restart_policy"]),
        ({"cwd": "/y"}, ["cwd"]),
        ({"env": {"A": "2"}}, ["env"]),
        ({"env": {}}, ["env"]),
        ({"inherit": ["B", "A*"]}, []),
        ({"inherit": ["B"]}, ["inherit"]),
        ({"grace": 9.0}, []),
        ({"session": "r2"}, ["session"]),
        ({"server": "s2"}, ["server"]),
        ({"owner": "p/r2#1"}, ["owner"]),
        ({"path": "b", "argv": ["x"]}, ["path", "argv"]),
        ({"services": dict(reversed(BASE["services"].items()))}, []),
        ({"services": BASE["services"] | {"SYMPH_PS_PORT": "1"}}, ["services"]),
        ({"services": BASE["services"] | {"SYMPH_PS_BIND": "127.0.0.1"}}, ["services"]),
        ({"services": {"SYMPH_PS_PORT": "20000"}}, ["services"]),
        ({"services": None}, ["services"]),
        ({"repair": "it exited with code 1"}, []),
    ],
)
def test_changes_lists_the_inputs_that_restart_the_process(
    change: dict[str, Any], expected: list[str]
) -> None:
    assert changes(BASE, {**BASE, **change}) == expected


def test_outputs_of_the_last_run_compare_equal_to_inputs() -> None:
    assert changes({**BASE, "pid": 7.0, "grace": 5}, BASE) == []


def test_the_digest_omits_the_identity_and_inputs_that_do_not_restart() -> None:
    assert digest(BASE) == digest({**BASE, "grace": 1, "pid": 3.0, "session": "other"})
    assert digest(BASE) != digest({**BASE, "env": {"A": "2"}})
    assert digest(BASE) == digest({**BASE, "services": dict(reversed(BASE["services"].items()))})
    assert digest(BASE) != digest({**BASE, "services": None})
