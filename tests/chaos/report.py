"""The table of a run: what was tried of each kind and what came of it; keeps the tries of earlier calls."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.chaos.trial import Try

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".chaos" / "tries.jsonl"
RESULTS = Path(__file__).with_name("RESULTS.md")
COLUMNS = ("kind", "tries", "survived", "orphans", "duplicates", "lost", "longest command")
HEAD = """\
# What symphony survives

Written by `make chaos`; nothing here is edited by hand. A try disturbs one experiment once, then one plain
command has to put all right. Survived: it did, within {deadline:.0f} s, with exactly the declared processes
in /proc and without a traceback. Orphans: processes that live and should not. Duplicates: second copies.
Lost: declared and not there. The longest command is in seconds, on {processors} busy processors.

"""


def keep(value: Try) -> None:
    """Append it to what this and earlier calls found."""
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a") as file:
        file.write(json.dumps({**value.row(), "commit": _commit()}) + "\n")


def kept() -> list[Try]:
    if not KEPT.exists():
        return []
    rows: list[dict[str, Any]] = [json.loads(line) for line in KEPT.read_text().splitlines()]
    return [Try(**{key: value for key, value in row.items() if key != "commit"}) for row in rows]


def write(tries: list[Try], deadline: float) -> None:
    head = HEAD.format(deadline=deadline, processors=os.cpu_count())
    RESULTS.write_text(head + "\n".join([*table(tries), "", *_broken(tries)]).rstrip() + "\n")


def table(tries: list[Try]) -> list[str]:
    """A row a kind, and one of all."""
    by_kind: dict[str, list[Try]] = {}
    for each in tries:
        by_kind.setdefault(each.kind, []).append(each)
    rows = [COLUMNS, *(_row(kind, result) for kind, result in sorted(by_kind.items())), _row("all", tries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def _row(kind: str, tries: list[Try]) -> tuple[str, ...]:
    sums = (len(tries), sum(each.survived for each in tries))
    sums += tuple(sum(getattr(each, name) for each in tries) for name in ("orphans", "duplicates", "lost"))
    return (kind, *map(str, sums), f"{max((each.longest for each in tries), default=0):.1f}")


def _broken(tries: Iterable[Try]) -> list[str]:
    result = [each for each in tries if not each.survived]
    lines = ["## What did not survive", ""] if result else []
    for each in result:
        why = " ".join(" ".join(each.broken).split())[:300]
        counts = f"{each.orphans} orphans, {each.duplicates} duplicates, {each.lost} lost"
        lines.append(f"- `make chaos KIND='{each.kind}' SEED={each.seed}`: {each.what}: {counts}. {why}")
    return lines


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
