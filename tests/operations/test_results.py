"""`symphony.params`, `symphony.report`, and the table and curves of reported values."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

import symphony
from symphony.cli import results as cli_results
from symphony.errors import UserError
from symphony.operations import results
from symphony.operations.results import Report, Row
from tests.sandbox import Sandbox, wait_for

PROGRAM = """
import symphony
params = symphony.params(lr=0.1, workers=1, fast=False)
SCRIPT = '''
import sys, symphony
for step in range(3):
    symphony.report(loss=float(sys.argv[1]) / (1 + step), step=step)
print('::result {"loss": ')
print('::result [1]')
'''
with Experiment() as e:
    for i in range(params.workers):
        e.new_process(f"w-{i}", command=["python", "-c", SCRIPT, str(params.lr)])
"""


def _rows() -> list[Row]:
    reports = [[3.0, 1.0, 2.0], [5.0, float("nan"), 4.0]]
    return [
        Row(
            str(i),
            {"lr": i},
            "completed",
            [Report(t, "a", {"loss": x, "step": t}) for t, x in enumerate(each)],
        )
        for i, each in enumerate(reports)
    ]


def test_result_rows_have_the_last_or_the_best_values() -> None:
    assert [row["loss"] for row in results.table(_rows())] == [2.0, 4.0]
    assert [(row["loss"], row["step"]) for row in results.table(_rows(), least="loss")] == [
        (1.0, 1),
        (4.0, 2),
    ]
    assert [(row["run"], row["loss"]) for row in results.table(_rows(), most="loss")] == [
        ("1", 5.0),
        ("0", 3.0),
    ]
    assert len(results.table(_rows(), all_reports=True)) == 6
    with pytest.raises(UserError) as error:
        results.table(_rows(), least="los")
    assert "loss" in (error.value.remedy or "")


@pytest.mark.thorough
def test_plot_draws_one_curve_for_each_run(tmp_path: Path) -> None:
    """With matplotlib, which `make test-thorough` installs."""
    for name in ("loss.svg", "again.svg", "loss.png"):
        results.plot(_rows(), "loss", tmp_path / name)
    drawn = (tmp_path / "loss.svg").read_text()
    assert all(f"<!-- {text} -->" in drawn for text in ("lr 0", "lr 1", "loss", "step"))
    assert drawn == (tmp_path / "again.svg").read_text()
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_curve_labels_tell_all_rows_apart() -> None:
    rows = [Row("1", {"lr": 1, "n": 2}, ""), Row("2", {"lr": 1, "n": 2, "fast": True}, "")]
    assert results._curve_labels([*rows, Row("3", {"lr": 2, "n": 2}, "")]) == [
        "lr 1",
        "lr 1, fast True",
        "lr 2",
    ]
    assert results._curve_labels([*rows, rows[1]])[1:] == ["run 2, fast True"] * 2
    assert results._curve_labels([rows[0], rows[0]]) == ["run 1"] * 2


def test_plot_without_matplotlib_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError) as error:
        results.plot(_rows(), "loss", tmp_path / "loss.svg")
    assert "matplotlib" in error.value.what


def test_report_prints_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    symphony.report(loss=np.float32(0.5), note="a\nb")
    line = capsys.readouterr().out
    assert line.startswith("::result ")
    assert json.loads(line.removeprefix("::result ")) == {"loss": 0.5, "note": "a\nb"}


def test_json_has_null_for_a_diverged_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Row("1", {"lr": 1}, "completed", [Report(0, "a", {"loss": float("nan"), "best": float("inf")})])]
    monkeypatch.setattr(cli_results, "_rows", lambda name: ("rl", rows))
    cli_results.command("rl", as_json=True)
    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert shown == [{"run": "1", "lr": 1, "loss": None, "best": None, "ended": "completed"}]


def test_params_outside_a_program_are_their_defaults() -> None:
    assert symphony.params(lr=0.1).lr == 0.1


def test_a_reported_value_does_not_replace_the_parameter_of_its_name() -> None:
    rows = [
        Row(str(lr), {"lr": lr}, "completed", [Report(0, "a", {"loss": 1 / lr, "lr": 0.5 - lr})])
        for lr in (0.1, 0.2)
    ]
    assert [(row["lr"], row["reported lr"]) for row in results.table(rows)] == [(0.1, 0.4), (0.2, 0.3)]
    assert [row["lr"] for row in results.table(rows, least="lr")] == [0.2, 0.1]
    assert [row["reported lr"] for row in results.table(rows, all_reports=True)] == [0.4, 0.3]


@pytest.mark.parametrize("text", [".5", "0.5", "+0.5", "5e-1"])
def test_a_parameter_takes_any_number_that_python_takes(sandbox: Sandbox, text: str) -> None:
    sandbox.write(
        "import symphony\np = symphony.params(lr=0.1)\n"
        'with Experiment() as e: e.new_process("a", command=["echo", str(p.lr)])'
    )
    assert "lr 0.5" in sandbox.symphony("plan", "rl", "-c", f"lr={text}").out


@pytest.mark.thorough
def test_a_text_parameter_that_yaml_changes_is_refused_at_its_line(sandbox: Sandbox) -> None:
    sandbox.write(
        "import symphony\n"
        'p = symphony.params(tag="x")\n'
        'with Experiment() as e: e.new_process("a", command=["echo", p.tag])'
    )
    settings = sandbox.folder / "Pulumi.rl.yaml"
    for written, words in (
        ("1.10", ("plan", "rl")),
        ("2026-11-29", ("plan", "rl", "--yaml", "-c", "symphony:backend=kubernetes")),
    ):
        settings.write_text(f"config:\n  sandbox:tag: {written}\n")
        refused = sandbox.symphony(*words, code=2).err
        assert f"YAML reads {written} as" in refused
        assert "Pulumi.rl.yaml:2" in refused
    settings.write_text("config:\n  sandbox:tag: yes\n")
    assert "tag yes" in sandbox.symphony("plan", "rl").out
    settings.write_text("config:\n  symphony:namespace: yes\n  symphony:grace: 5\n")
    rows = {row["name"]: row["value"] for row in sandbox.symphony("config", "rl", "--json").json}
    assert (rows["symphony:namespace"], rows["symphony:grace"]) == ("yes", 5), "as the engine reads them"


@pytest.mark.thorough
def test_parameters_from_the_command_line_reach_runs_and_results(sandbox: Sandbox) -> None:
    sandbox.write(PROGRAM)
    assert "lr 0.5" in sandbox.symphony("plan", "rl", "-c", "lr=0.5").out
    assert not (sandbox.folder / "Pulumi.rl.yaml").exists()
    for words in (["-c", "lr=0.3"], ["-c", "workers=2", "-c", "fast=true"]):
        sandbox.symphony("up", "rl", "-y", *words, code=None)
        wait_for(
            lambda: all(each["state"] == "completed" for each in sandbox.processes("rl").values()),
            30,
            "all ended",
        )
    rows = sandbox.symphony("results", "rl", "--json").json
    assert [(row["run"], row["lr"], row["workers"], row["step"]) for row in rows] == [
        ("1", 0.3, 1, 2),
        ("2", 0.3, 2, 2),
    ]
    best = sandbox.symphony("results", "rl", "--max", "loss", "--csv", "-").out
    assert [row["loss"] for row in csv.DictReader(io.StringIO(best))] == ["0.3", "0.3"]
    config = {row["name"]: row for row in sandbox.symphony("config", "rl", "--json").json}
    assert (config["lr"]["value"], config["lr"]["default"]) == (0.3, 0.1)
    assert "Pulumi.rl.yaml" in config["lr"]["from"]
    for word, remedy in (
        ("lrr=1", "lr"),
        ("unheard=1", "workers"),
        ("workers=two", "whole number"),
        ("lr", "KEY=VALUE"),
    ):
        refused = sandbox.symphony("up", "rl", "-y", "-c", word, code=2).err
        assert remedy in refused
    assert "lrr" not in (sandbox.folder / "Pulumi.rl.yaml").read_text()


@pytest.mark.thorough
def test_what_a_process_prints_while_the_next_run_replaces_it_belongs_to_its_own_run(
    sandbox: Sandbox,
) -> None:
    """The process reports once more when it is told to stop, after the next run has begun."""
    sandbox.write("""
import symphony
params = symphony.params(lr=1)
SCRIPT = '''
import signal, sys, time, symphony
def stop(*_):
    time.sleep(1)
    symphony.report(lr=int(sys.argv[1]), last=1)
    sys.exit()
signal.signal(signal.SIGTERM, stop)
symphony.report(lr=int(sys.argv[1]), last=0)
while True:
    time.sleep(0.1)
'''
with Experiment() as e:
    e.new_process("w", command=["python", "-c", SCRIPT, str(params.lr)])
    if params.lr < 3:
        e.new_process("gone", command=["python", "-c", SCRIPT, "0"])
""")
    for lr in (1, 2, 3):
        sandbox.symphony("up", "rl", "-y", "-c", f"lr={lr}")
        wait_for(
            lambda lr=lr: f'"lr": {lr}' in sandbox.symphony("logs", "rl", "w", "--run", "all").out,
            30,
            "a report",
        )
    rows = sandbox.symphony("results", "rl", "--all", "--json").json
    reported = {(row["run"], row["process"], row["reported lr"], row["last"]) for row in rows}
    assert reported == {
        *(("1", "w", 1, 0), ("1", "w", 1, 1), ("2", "w", 2, 0), ("2", "w", 2, 1), ("3", "w", 3, 0)),
        *(("1", "gone", 0, 0), ("2", "gone", 0, 1)),
    }
    assert "lr" not in sandbox.symphony("logs", "rl", "gone", "--run", "3", code=None).out
