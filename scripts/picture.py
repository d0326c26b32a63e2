"""Draw docs/screens: NAME.svg from NAME.txt, which tests compare with real output, and other pictures."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import Console
from rich.text import Text

from symphony.cli import gpus, process, screen
from symphony.cli import graph as cli_graph
from symphony.operations import graph
from tests.cli import top_views
from tests.documents import blocks, screens
from tests.sandbox import ROOT, Sandbox, sandbox_in

SCREENS = Path(__file__).parent.parent / "docs" / "screens"
WIDTH = 84
# The colours of the states, as symphony uses them on a terminal.
STYLES = {
    r"^\$ .*": "bold",
    r"^\+.*": "green",
    r"^ *(process|group) .*": "dim",
    r"\b(started|running: .*)": "green",
    r"\bstopped$": "red",
    r"^ada +\|": "green",
    r"^grace +\|": "magenta",
    r"^server +\|": "cyan",
}


def svg(name: str) -> str:
    """Return the picture of the screen NAME.txt."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for line in (SCREENS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        text = Text(line, no_wrap=True, overflow="crop")
        for pattern, style in STYLES.items():
            text.highlight_regex(pattern, style)
        console.print(text)
    return console.export_svg(title="symphony", unique_id=name)


def surreal(planned: dict[str, Any]) -> str:
    """Return the picture of the graph of `symphony plan surreal --json`."""
    plan = planned["plan"]
    return graph.svg(graph.build("surreal", plan["backend"], plan["processes"], plan["services"]))


def sweep(sandbox: Sandbox) -> dict[str, list[str]]:
    """Run the sweep of README.md in a copy of its example; return what its commands print."""
    shutil.copytree(ROOT / "examples" / "descent", sandbox.folder, dirs_exist_ok=True)
    (shown,) = blocks("README.md", "console")
    start, *others = screens(shown)
    sandbox.symphony(*shlex.split(start)[1:], timeout=300)
    sandbox.symphony("wait", "grid", timeout=300)
    sandbox.symphony("results", "grid", "--plot", "loss")
    return {command: sandbox.symphony(*shlex.split(command)[1:]).out.splitlines() for command in others}


async def top() -> str:
    """Return the picture of `symphony top` with the experiment of tests/cli/top_views.py."""
    from symphony.cli.live import Live

    app = Live(top_views.Scripted(top_views.view()))
    async with app.run_test(size=(112, 14)) as pilot:
        await pilot.pause()
        while not app.query_one("#services").display:
            await pilot.pause(0.05)
        return _spaced(re.sub(r"terminal-\d+", "top", app.export_screenshot(title="symphony top rl")))


def process_wide() -> str:
    """Return the picture of `symphony process -o wide` with the same experiment."""
    rows = top_views.view().rows
    used = {row.status.path: row.used for row in rows}
    with (
        mock.patch.object(process.arguments, "experiment"),
        mock.patch.object(process, "processes", return_value=[row.status for row in rows]),
        mock.patch("symphony.cli.process.usage_of", return_value=used),
    ):
        return _printed("process", lambda: process.command(output=process.Output.WIDE), 114)


def gpus_held() -> str:
    """Return the picture of `symphony gpus` with the GPUs of tests/cli/top_views.py."""
    devices, claims = top_views.gpus_of_machine()
    users = {4711: "python 4711 of ana", 9120: "python 9120 of ben"}
    with (
        mock.patch.object(gpus.gpus, "devices", return_value=devices),
        mock.patch.object(gpus.gpus, "claims", return_value=claims),
        mock.patch.object(gpus.gpus, "program", users.__getitem__),
    ):
        return _printed("gpus", gpus.command, 90)


def graph_text() -> str:
    """Return the picture of `symphony graph` with the experiment of `top`."""
    with mock.patch.object(cli_graph, "_running", return_value=top_views.view().graph):
        return _printed("graph", cli_graph.command, 60)


def _printed(name: str, command: Callable[[], None], width: int) -> str:
    """Return the picture of what a command prints on a terminal."""
    terminal = partial(Console, force_terminal=True, color_system="standard", width=width)
    with (
        contextlib.redirect_stdout(io.StringIO()) as printed,
        mock.patch.object(screen, "is_terminal", return_value=True),
        mock.patch.object(screen, "console", terminal),
        mock.patch.dict(os.environ),
    ):
        os.environ.pop("NO_COLOR", None)
        command()
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(printed.getvalue().rstrip("\n")))
    return _spaced(console.export_svg(title=f"symphony {name}", unique_id=name))


def _spaced(svg: str) -> str:
    """Return a picture in which other programs than browsers keep the spaces at the ends of texts, too."""
    return svg.replace("<svg ", '<svg xml:space="preserve" ', 1)


# Pictures of the output of commands for the experiment in tests/cli/top_views.py.
DRAWN: dict[str, Callable[[], str]] = {
    "top": lambda: asyncio.run(top()),
    "process": process_wide,
    "gpus": gpus_held,
    "graph": graph_text,
}


if __name__ == "__main__":
    for file in SCREENS.glob("*.txt"):
        file.with_suffix(".svg").write_text(svg(file.stem), encoding="utf-8")
    made = subprocess.run(
        [Path(sys.executable).with_name("symphony"), "plan", "surreal", "--json"],
        stdout=subprocess.PIPE,
        check=True,
    )
    (SCREENS / "surreal.svg").write_text(surreal(json.loads(made.stdout)), encoding="utf-8")
    with (
        tempfile.TemporaryDirectory() as place,
        sandbox_in(Path(place), folder=Path(place) / "descent") as own,
    ):
        sweep(own)
        shutil.copy(own.folder / "grid-loss.svg", SCREENS / "sweep.svg")
    for screen_name, draw in DRAWN.items():
        (SCREENS / f"{screen_name}.svg").write_text(draw(), encoding="utf-8")
