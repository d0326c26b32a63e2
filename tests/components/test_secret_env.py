"""`secret_env`: values from files, Outputs and secret settings, their digests, and problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import config

from symphony import Experiment, run_request
from symphony.backends import registry
from symphony.components import secret_env
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.build import build_plan
from symphony.plan.plan import Plan
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec
from tests.plans import problems, shown

TMUX = BackendLimits("tmux", "rl", "command", registry.get("tmux").settings, True, "127.0.0.1", "127.0.0.1")
KEY = b"key"


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """A stack with one secret setting and one in plain text."""
    config.set_all_config({"rl:token": "s3cret", "rl:level": "high"}, ["rl:token"])
    yield
    config.set_all_config({}, [])


def planned(experiment: Experiment) -> Plan:
    return build_plan(secret_env.resolve_values(experiment.spec)[0], TMUX)


def spec_and_limits(experiment: Experiment) -> tuple[ExperimentSpec, BackendLimits, Sequence[Problem]]:
    spec, found = secret_env.resolve_values(experiment.spec)
    return spec, TMUX, found


def messages(experiment: Experiment) -> list[str]:
    result = problems(*spec_and_limits(experiment))
    return [f"{each.what} {[place.line for place in each.where]}" for each in result]


def test_secret_env_takes_files_outputs_and_settings(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("of-a-file\n")
    given: dict[str, Any] = {
        "FILE": tmp_path / "key",
        "OUTPUT": pulumi.Output.secret("of-an-output"),
        "NUMBER": pulumi.Output.secret(7),
        "REQUIRED": pulumi.Config("rl").require_secret("token"),
        "READ": pulumi.Config("rl").require("token"),
    }
    experiment = Experiment("rl")
    experiment.new_process("a", ["x"], secret_env=given)
    (process,) = planned(experiment).processes
    revealed = {name: secret.reveal() for name, secret in process.secret_env.items()}
    assert revealed == {
        "FILE": "of-a-file",
        "OUTPUT": "of-an-output",
        "NUMBER": "7",
        "REQUIRED": "s3cret",
        "READ": "s3cret",
    }


def test_secret_values_in_env_become_secret_env(tmp_path: Path) -> None:
    experiment = Experiment("rl", env={"A": pulumi.Output.secret("of-an-output"), "B": 1})
    group = experiment.new_process_group("g")
    group.set_env("C", pulumi.Config("rl").require("token"))
    group.new_process("a", ["x"], env={"LEVEL": pulumi.Config("rl").require("level")})
    plan = planned(experiment)
    (process,) = plan.processes
    assert process.env == {"B": "1", "LEVEL": "high"}
    assert sorted(process.secret_env) == ["A", "C"]
    for text in (str(shown(plan)), repr(plan), repr(process)):
        assert "s3cret" not in text
        assert "of-an-output" not in text


def test_the_innermost_declaration_decides_if_a_variable_is_secret() -> None:
    experiment = Experiment("rl", secret_env={"A": pulumi.Output.secret("x")}, env={"B": "plain"})
    experiment.new_process("a", ["x"], env={"A": "plain"}, secret_env={"B": pulumi.Output.secret("y")})
    (process,) = planned(experiment).processes
    assert process.env == {"A": "plain"}
    assert {name: secret.reveal() for name, secret in process.secret_env.items()} == {"B": "y"}


def test_an_unknown_secret_has_the_digest_unknown_in_a_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    unknown: pulumi.Output[Any] = pulumi.Output(set(), _is(None), _is(False))
    experiment = Experiment("rl")
    experiment.new_process("a", ["x"], env={"A": unknown, "B": pulumi.Output.secret("")})
    assert messages(experiment) == [f"cannot set B for a: the value is empty {[_line(experiment)]}"]
    experiment = Experiment("rl")
    experiment.new_process("a", ["x"], env={"A": unknown})
    (process,) = planned(experiment).processes
    assert process.secret_env["A"].digest(KEY) == "unknown"


def test_secret_digests_differ_by_value_and_key() -> None:
    only, same, other = (secret_env.Secret(text) for text in ("x", "x", "y"))
    assert only.digest(KEY) == same.digest(KEY)
    assert len({only.digest(KEY), other.digest(KEY), only.digest(b"another"), "unknown"}) == 4


def test_an_unreadable_secret_is_a_problem_that_hides_its_value(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "nul").write_bytes(b"a\0b")
    (tmp_path / "long").write_text("x" * 200_000)
    (tmp_path / "latin").write_bytes(b"\xe9")
    wanted: dict[str, Any] = {
        **{name.upper(): tmp_path / name for name in ("empty", "nul", "long", "latin", "missing")},
        "PASTED": "0a1b2c3d4e5f",
        "FOLDER": tmp_path,
        "OUTPUT": pulumi.Output.secret({"a": 1}),
        "A B": tmp_path / "empty",
    }
    experiment = Experiment("rl", secret_env=wanted, env={"EMPTY": 1})
    experiment.new_process("a", ["x"])
    result = problems(*spec_and_limits(experiment))
    assert {each.where[0].file for each in result} == {__file__}
    by_name = {each.what.removeprefix("cannot set ").split()[0]: each.what for each in result}
    assert "no such file" in by_name["MISSING"]
    assert str(tmp_path)[:40] in by_name["MISSING"]
    assert "no such file" in by_name["PASTED"]
    assert "0a1b2c3d4e5f" not in str(result)
    assert "the value is empty" in by_name["EMPTY"]
    assert "NUL" in by_name["NUL"]
    assert "200000 bytes" in by_name["LONG"]
    assert "UTF-8" in by_name["LATIN"]
    assert "regular file" in by_name["FOLDER"]
    assert "not text" in by_name["OUTPUT"]
    assert any(each.what.startswith('the experiment sets "A B"') for each in result)
    assert "the experiment sets EMPTY in env and in secret_env" in [each.what for each in result]


def test_an_output_that_stays_unknown_is_a_problem_unless_its_process_keeps_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown: pulumi.Output[Any] = pulumi.Output(set(), _is(None), _is(False))
    experiment = Experiment("rl")
    for name in ("a", "b"):
        experiment.new_process(name, command="x", args=[unknown], env={"T": unknown})
    assert [each.split(" of ")[0] for each in messages(experiment)] == [
        "a has an Output in args",
        "a has an Output in secret_env T",
        "b has an Output in args",
        "b has an Output in secret_env T",
    ]
    for name, value in run_request.RunRequest(restart={"b": ""}).environment.items():
        monkeypatch.setenv(name, value)
    assert {each.split()[0] for each in messages(experiment)} == {"b"}


def test_args_command_and_image_accept_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    unknown: pulumi.Output[Any] = pulumi.Output(set(), _is(None), _is(False))
    image = pulumi.Output.from_input("rl:1")
    experiment = Experiment("rl", image=image)
    args = ["--lr", pulumi.Output.from_input(0.1), unknown]
    experiment.new_process("a", command=["x", pulumi.Output.from_input("y")], args=args)
    spec, found = secret_env.resolve_values(experiment.spec)
    assert found == ()
    assert spec.image == "rl:1"
    assert spec.processes[0].command == ("x", "y")
    assert spec.processes[0].args == ("--lr", "0.1", secret_env.UNKNOWN)


def test_a_secret_output_in_args_is_a_problem() -> None:
    experiment = Experiment("rl")
    experiment.new_process("a", command="x", args=[pulumi.Output.secret("s3")])
    assert messages(experiment) == [
        f"a has a secret Output in args, which the plan and the state show as text {[_line(experiment)]}"
    ]


def test_a_saved_experiment_keeps_paths_of_secret_files() -> None:
    experiment = Experiment("rl", secret_env={"KEY": "~/.key"})
    experiment.new_process("a", ["x"])
    again = Experiment.from_dict(experiment.to_dict())
    assert again.spec == experiment.spec
    assert replace(again.spec, secret_env={}) != experiment.spec


async def _is(value: Any) -> Any:
    return value


def _line(experiment: Experiment) -> int:
    return experiment.list_processes()[0].spec.where.line
