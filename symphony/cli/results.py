"""`symphony results`: shows the values that processes report, a row for each run."""

import csv
import math
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from symphony.cli import arguments, screen
from symphony.errors import SymphonyError, UserError
from symphony.operations import results, runs, stacks, sweep


def command(
    name: arguments.Experiment = None,
    least: Annotated[
        str | None, typer.Option("--min", metavar="NAME", help="Each run's minimum of NAME; best run first.")
    ] = None,
    most: Annotated[
        str | None, typer.Option("--max", metavar="NAME", help="Each run's maximum of NAME; best run first.")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Show each run's last values (default).")] = False,
    every: Annotated[bool, typer.Option("--all", help="Show a row for each report.")] = False,
    to_csv: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="Write the table as CSV to FILE; - prints it.")
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="NAME", help="Draw the curves of NAME with matplotlib."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="The file for --plot, .svg or .png.")
    ] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Show the values that processes report, one row for each run of an experiment.

    A process reports values with symphony.report(loss=0.31, step=900), or by printing
    `::result {"loss": 0.31, "step": 900}`.

    Examples:
        symphony results rl
        symphony results rl --min loss
        symphony results rl --all --csv results.csv
        symphony results rl --plot loss --to loss.png
    """
    if [least is not None, most is not None, last, every].count(True) > 1:
        raise UserError("--min, --max, --last and --all exclude each other", remedy="Use only one of them")
    shown_name, rows = _rows(name)
    if plot is not None:
        file = to or Path(f"{shown_name}-{plot.replace('/', '-')}.svg")
        results.plot(rows, plot, file)
        print(screen.clean(f"Wrote {file}."))
        return
    table = results.table(rows, least=least, most=most, all_reports=every)
    names = dict.fromkeys(name for row in table for name in row)
    # "ended" comes last.
    heads = sorted(names, key=lambda name: name == "ended")
    if as_json:
        screen.show_json([{name: _in_json(value) for name, value in row.items()} for row in table])
    elif to_csv == "-":
        _write(sys.stdout, heads, table)
    elif to_csv is not None:
        with Path(to_csv).open("w", newline="", encoding="utf-8") as file:
            _write(file, heads, table)
        print(screen.clean(f"Wrote {len(table)} rows to {to_csv}."))
    elif not results.names_of(rows):
        text = f'No process of {shown_name} has printed a line such as ::result {{"loss": 0.31}}.'
        print(screen.clean(text))
    else:
        screen.show_table(heads, [[_cell(row.get(head)) for head in heads] for row in table])


def _rows(name: str | None) -> tuple[str, list[results.Row]]:
    experiment = runs.find(name)
    if (swept := sweep.read(experiment)) is not None:
        return swept.name, _trial_rows(swept)
    # The last run may still be running.
    with suppress(SymphonyError):
        runs.keep_last_logs(stacks.read(experiment))
    all_runs = runs.every(experiment)
    if all_runs and all_runs[-1].ended is None:
        all_runs[-1] = runs.with_current_states(stacks.read(experiment), all_runs[-1])
    return experiment.stack, [results.row(experiment, run) for run in all_runs]


def _trial_rows(swept: sweep.Sweep) -> list[results.Row]:
    rows: list[results.Row] = []
    for trial in swept.trials:
        name = swept.stack_of(trial)
        if trial.state == "running":
            with suppress(SymphonyError):
                runs.keep_last_logs(stacks.read(name))
        run = runs.last(name)
        ended = f"{trial.state}{f': {trial.why}' if trial.why else ''}"
        row = results.row(name, run, str(trial.number)) if run else results.Row(str(trial.number), {}, ended)
        rows.append(replace(row, parameters=dict(trial.values), ended=ended, kind="trial"))
    return rows


def _in_json(value: Any) -> Any:
    """Return null for NaN and infinity, which JSON cannot hold."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


def _write(file: Any, heads: list[str], table: list[dict[str, Any]]) -> None:
    writer = csv.DictWriter(file, heads, restval="")
    writer.writeheader()
    writer.writerows(table)
