"""Launch files pass argv and environment byte by byte; rules for the environment of processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symphony_dynamic.provider import WrongInput
from symphony_tmux.processes import launch_file
from symphony_tmux.processes.environment import SHELLS_OWN, Caller, environment
from symphony_tmux.resource.inputs import window_inputs

TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
ODD = st.text(alphabet="'\"\\$`!;&|<>(){}[]*?~# \t\n\r\x01\x7f\x81\x88é%=-", max_size=12)
NAME = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,12}\Z").filter(lambda name: name not in SHELLS_OWN)
SHOW = "import os,sys; sys.stdout.buffer.write(repr((sys.argv[1:], dict(os.environ))).encode())"
BASE = {"session": "s", "owner": "p/s#1", "path": "a", "cwd": "/"}
# Prefixes of variables that affect the shell or Python; SHELLS_OWN has those that a shell sets itself.
KEPT_OUT = (
    "PATH",
    "PYTHON",
    "LC_",
    "LANG",
    "LD_",
    "BASH",
    "ENV",
    "IFS",
    "PS4",
    "POSIXLY",
    "SYMPHONY_ID",
    "HOME",
    "CDPATH",
)


def run_launch_file(props: dict[str, Any], folder: Path, shell: str) -> tuple[list[str], dict[str, str]]:
    file = folder / "launch.sh"
    services = folder / "services.sh"
    services.touch()
    caller = Caller({b"PATH": b"/usr/bin:/bin", b"PYTHONUTF8": b"1", b"PYTHONCOERCECLOCALE": b"0"})
    inputs = window_inputs({**props, "inherit": ["PYTHONUTF8", "PYTHONCOERCECLOCALE"]})
    file.write_bytes(launch_file.content(inputs, "p/s#1/a/1", caller, [services], folder))
    done = subprocess.run([shell, str(file)], capture_output=True, check=True, env={"TMUX": "x", "TERM": "y"})
    argv, variables = eval(done.stdout.decode(), {}, {})
    return argv, {
        key: value
        for key, value in variables.items()
        if key not in ("PWD", "SHLVL", "_", "PYTHONUTF8", "PYTHONCOERCECLOCALE")
    }


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    argv=st.lists(TEXT | ODD, max_size=5),
    env=st.dictionaries(
        NAME.filter(lambda name: not name.upper().startswith(KEPT_OUT)), TEXT | ODD, max_size=5
    ),
)
def test_launch_file_passes_argv_and_env_unchanged(
    tmp_path: Path, shell: str, argv: list[str], env: dict[str, str]
) -> None:
    props = {**BASE, "argv": [sys.executable, "-S", "-c", SHOW, *argv], "env": env}
    got_argv, got_env = run_launch_file(props, tmp_path, shell)
    assert got_argv == argv
    ours = {"SYMPHONY_ID": "p/s#1/a/1", "SYMPHONY_ROLE": "a", "PYTHONUNBUFFERED": "1"}
    assert got_env == {**env, "PATH": "/usr/bin:/bin", **ours}


@given(st.binary().filter(lambda data: b"\0" not in data))
@settings(deadline=None, max_examples=60)
def test_quote_is_exact_for_any_bytes(data: bytes) -> None:
    for shell in ("/bin/sh", "/bin/bash"):
        script = b"printf %s " + launch_file.quote(data)
        assert subprocess.run([shell], input=script, capture_output=True, check=True, env={}).stdout == data


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("argv", "text"),
        ("argv", [1]),
        ("env", {"a.b": "1"}),
        ("env", {"A": 1}),
        ("services", {"A B": "1"}),
        ("grace", -1),
        ("grace", "x"),
        ("grace", float("nan")),
        ("owner", "me"),
        ("server", "../x"),
    ],
)
def test_invalid_window_inputs_name_the_field(field: str, value: object) -> None:
    with pytest.raises(WrongInput) as raised:
        window_inputs({**BASE, "argv": ["true"], field: value})
    assert raised.value.field == field
    assert "\n" not in raised.value.reason


def test_inherit_patterns_and_precedence_of_variables() -> None:
    caller = Caller(
        {
            b"PATH": b"/p",
            b"LC_ALL": b"C",
            b"X_1": b"x",
            b"X": b"no",
            b"S": b"outer",
            b"AWS": b"secret",
            b"a.b": b"1",
        }
    )
    result = environment(
        caller, ["X_*", "S", "a*"], {"S": "service", "T": "service"}, {"T": "declared"}, "o/a/1"
    )
    assert result == {
        b"PATH": b"/p",
        b"LC_ALL": b"C",
        b"X_1": b"x",
        b"S": b"service",
        b"T": b"declared",
        b"SYMPHONY_ID": b"o/a/1",
        b"SYMPHONY_ROLE": b"a",
        b"PYTHONUNBUFFERED": b"1",
    }


def test_pythonunbuffered_is_set_unless_declared_and_symphony_home_is_inherited() -> None:
    plain = Caller({b"SYMPHONY_HOME": b"/h", b"PYTHONUNBUFFERED": b""})
    assert environment(plain, [], {}, {}, "m")[b"PYTHONUNBUFFERED"] == b"1"
    assert environment(plain, ["PYTHONUNBUFFERED"], {}, {}, "m")[b"PYTHONUNBUFFERED"] == b""
    assert environment(plain, [], {}, {"PYTHONUNBUFFERED": "0"}, "m")[b"PYTHONUNBUFFERED"] == b"0"
    assert environment(plain, [], {}, {}, "m")[b"SYMPHONY_HOME"] == b"/h"


def test_the_virtual_environment_of_the_program_is_first_on_path_unless_another_is_active() -> None:
    plain = Caller({b"PATH": b"/bin:/venv/bin"}, "/venv")
    assert environment(plain, [], {}, {}, "m")[b"PATH"] == b"/venv/bin:/bin"
    assert environment(plain, [], {}, {}, "m")[b"VIRTUAL_ENV"] == b"/venv"
    for active in (b"VIRTUAL_ENV", b"CONDA_PREFIX"):
        chosen = Caller({b"PATH": b"/bin", active: b"/mine"}, "/venv")
        assert environment(chosen, [], {}, {}, "m")[b"PATH"] == b"/bin"
    assert environment(plain, [], {}, {"PATH": "/x"}, "m")[b"PATH"] == b"/x"
