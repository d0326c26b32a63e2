"""Settings of a stack (`symphony:NAME`): parsing, errors with their line, the table in docs/settings.md."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, cast

import pytest

from symphony.backends import registry, settings_reader
from symphony.backends.kubernetes.settings import Settings
from symphony.backends.stack_settings import StackSettings
from tests.sandbox import ROOT


def kubernetes_settings(**given: Any) -> Settings:
    config = {"symphony:backend": "kube", **{f"symphony:{key}": value for key, value in given.items()}}
    return cast("Settings", settings_reader.read_settings(config))


def problems(settings: StackSettings) -> list[str]:
    return [f"{each.what}: {each.remedy}" for each in settings.problems]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"expose": "Nodeport!"}, 'invalid value "Nodeport!" for symphony:expose: did you mean NodePort?'),
        (
            {"podSecurity": "none"},
            'invalid value "none" for symphony:podSecurity: expected one of baseline, restricted, privileged',
        ),
        ({"grace": "soon"}, 'invalid value "soon" for symphony:grace: expected 0-600 seconds'),
        ({"patience": "nan"}, 'invalid value "nan" for symphony:patience: expected 0-600 seconds'),
        ({"patience": [60]}, 'invalid value "[60]" for symphony:patience: expected 0-600 seconds'),
        (
            {"sourceRanges": "here"},
            'invalid value "here" for symphony:sourceRanges: expected a list: 203.0.113.0/24',
        ),
        ({"backend": "tmx"}, 'invalid value "tmx" for symphony:backend: did you mean tmux?'),
        (
            {"podSecurty": "restricted"},
            '"symphony:podSecurty" is not a setting: did you mean symphony:podSecurity?',
        ),
        ({"xyz": "1"}, '"symphony:xyz" is not a setting: `symphony config` lists all settings'),
        (
            {"expose": "LoadBalancer"},
            "symphony:expose would open a LoadBalancer to the whole internet: set who may reach it with"
            " symphony:sourceRanges, such as 203.0.113.0/24",
        ),
    ],
)
def test_each_invalid_setting_is_one_problem(given: dict[str, Any], problem: str) -> None:
    assert problems(kubernetes_settings(**given)) == [problem]


def test_an_invalid_tmux_server_name_is_a_problem() -> None:
    for server in ("a/b", ".x", "a" * 64):
        (problem,) = problems(settings_reader.read_settings({"symphony:server": server}))
        assert problem.endswith("expected letters, digits, - and _")


def slurm_problem(folder: Path, setting: str) -> str:
    """Return the problem of a settings file with this setting in its third line, with the remedy."""
    file = folder / "Pulumi.rl.yaml"
    key, value = setting.split(": ")
    file.write_text(f"config:\n  symphony:backend: slurm\n  symphony:{setting}\n")
    settings = settings_reader.read_settings({"symphony:backend": "slurm", f"symphony:{key}": value}, file)
    for problem in settings.problems:
        assert [str(where).rpartition("/")[2] for where in problem.where] == ["Pulumi.rl.yaml:3"]
    return "".join(problems(settings))


def test_a_shared_folder_that_cannot_be_written_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert slurm_problem(tmp_path, f"sharedFolder: {tmp_path}/a/b") == ""
    (tmp_path / "file").touch()
    begin = f"symphony:sharedFolder is {tmp_path}/file/a, but you cannot write to {tmp_path}/file: "
    assert slurm_problem(tmp_path, f"sharedFolder: {tmp_path}/file/a").startswith(begin)
    assert slurm_problem(tmp_path, "sharedFolder: ~no-such-user/a").count("there is no such user") == 1
    # Root may write anywhere.
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: access(path, mode) and (path, mode) != (tmp_path, 3))
    begin = f"symphony:sharedFolder is {tmp_path}/a/b, but you cannot write to {tmp_path}: "
    assert slurm_problem(tmp_path, f"sharedFolder: {tmp_path}/a/b").startswith(begin)


def test_a_slurm_conf_that_does_not_exist_is_a_problem(tmp_path: Path) -> None:
    problem = slurm_problem(tmp_path, f"slurmConf: {tmp_path}/none.conf")
    begin = f"symphony:slurmConf is {tmp_path}/none.conf, which is missing or not readable: "
    assert problem.startswith(begin)
    (tmp_path / "none.conf").touch()
    assert slurm_problem(tmp_path, f"slurmConf: {tmp_path}/none.conf") == ""


def test_settings_parse_from_pulumi_strings_and_from_yaml_values() -> None:
    ranges = '["10.0.0.0/8","::1","1.2.3.4/255.255.255.0"]'
    result = kubernetes_settings(
        expose="loadbalancer", sourceRanges=ranges, pullSecrets="a, b", createNamespace=False
    )
    assert result.problems == ()
    assert result.source_ranges == ("10.0.0.0/8", "::1/128", "1.2.3.0/24")
    assert (result.expose, result.pull_secrets, result.create_namespace) == (
        "LoadBalancer",
        ("a", "b"),
        False,
    )
    assert kubernetes_settings(pullSecrets=["a", "b"], image="").pull_secrets == ("a", "b")


@pytest.mark.parametrize(("given", "whole"), [("0", 0), ("0.9", 1), ("5.0", 5), (100, 100), (None, 5)])
def test_grace_on_kubernetes_is_rounded_up_to_whole_seconds(given: Any, whole: int) -> None:
    assert kubernetes_settings(grace=given).grace_seconds == whole


def test_an_encrypted_setting_is_not_checked() -> None:
    assert kubernetes_settings(image=object()).problems == ()


def test_the_settings_table_has_unique_keys_and_the_default_backend() -> None:
    keys = [each.key for each in settings_reader.table()]
    assert len(keys) == len({*keys}) > 10
    assert StackSettings().backend == registry.DEFAULT


def test_unknown_and_misplaced_settings_are_reported_with_file_and_line(tmp_path: Path) -> None:
    own, project = tmp_path / "Pulumi.rl.yaml", tmp_path / "Pulumi.yaml"
    own.write_text("# ours\nsymphony:backend: kubernetes\nconfig:\n  symphony:bakend: kube\n  aws:a: b\n")
    project.write_text("name: rl\nconfig:\n  symphony:imge: {value: a}\n")
    result = settings_reader.read_settings({"symphony:bakend": "kube", "symphony:imge": "a"}, own, project)
    assert [(each.what, [place.line for place in each.where]) for each in result.problems] == [
        ('"symphony:bakend" is not a setting', [4]),
        ('"symphony:imge" is not a setting', [3]),
        ('"symphony:backend" is not under `config:`', [2]),
    ]
    assert [Path(each.where[0].file).name for each in result.problems] == [own.name, project.name, own.name]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1e3", "1000"),
        ("007", "7"),
        ("0123", "83"),
        ("1.10", "1.1"),
        # Before the first run of a stack, the command reads the file with PyYAML, to which these are text.
        ("1e3", "1e3"),
        ("0o17", "0o17"),
        ("0b11", "3"),
        ("TRUE", "true"),
        ("2026-01-01", "2026-01-01 00:00:00 +0000 UTC"),
    ],
)
def test_an_unquoted_text_that_yaml_or_the_engine_reads_as_something_else_is_a_problem(
    tmp_path: Path, written: str, read: str
) -> None:
    number = {"1e3": "1000", "0o17": "15"}.get(read, read)
    own = tmp_path / "Pulumi.rl.yaml"
    for key in ("symphony:namespace", "symphony:server", "symphony:backend"):
        own.write_text(f"config:\n  {key}: {written}\n  symphony:grace: 1e1\n")
        (problem,) = settings_reader.read_settings({key: read, "symphony:grace": "10"}, own).problems
        assert written in problem.what
        assert number in problem.what
        assert problem.remedy == f'quote it: "{written}"'
        assert problem.where[0].line == 2
    own.write_text(f'config:\n  symphony:namespace: "{written}"\n')
    assert settings_reader.read_settings({"symphony:namespace": written}, own).problems == ()


def test_a_parameter_that_yaml_reads_as_octal_is_a_problem(tmp_path: Path) -> None:
    own = tmp_path / "Pulumi.rl.yaml"
    own.write_text("config:\n  rl:lr: 1e-3\n  rl:seed: 010\n  rl:zero: 00\n  rl:tag: '010'\n")
    config = {"rl:lr": "0.001", "rl:seed": 8, "rl:zero": "0", "rl:tag": "010"}
    (problem,) = settings_reader.read_settings(config, own).problems
    assert problem.what == "rl:seed: YAML reads 010 as an octal number, which is 8"
    assert [place.line for place in problem.where] == [3]
    own.write_text("config:\n  symphony:grace: 012\n")
    (problem,) = settings_reader.read_settings({"symphony:grace": 10}, own).problems
    assert problem.what == "symphony:grace: YAML reads 012 as an octal number, which is 10"


@pytest.mark.parametrize(
    ("written", "passed"), [("64", "128"), ("64", "auto"), ("010", "7"), ("2026", "lab"), ("TRUE", "false")]
)
def test_a_setting_of_the_command_line_replaces_any_text_of_the_file(
    tmp_path: Path, written: str, passed: str
) -> None:
    """`-c batch=128` was refused beside `batch: 64` in the file."""
    own = tmp_path / "Pulumi.rl.yaml"
    for key in ("rl:batch", "symphony:namespace"):
        own.write_text(f"config:\n  {key}: {written}\n")
        assert settings_reader.read_settings({key: passed}, own).problems == ()


def test_the_settings_table_in_the_docs_is_up_to_date() -> None:
    """After a change, paste the rows that the failure shows."""
    rows = [" | ".join([f"`{key}`", *more]) for key, *more in (each.row for each in settings_reader.table())]
    wanted = [f"| {row} |" for row in (" | ".join(settings_reader.COLUMNS), "|".join(["---"] * 5), *rows)]
    wanted[1] = "|---|---|---|---|---|"
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    match = re.search(r"^\| setting \|.*?(?=\n\n|\n\Z)", text, flags=re.MULTILINE | re.DOTALL)
    assert match is not None
    assert match[0].splitlines() == wanted
