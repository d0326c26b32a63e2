"""Draw docs/screens: NAME.svg from NAME.txt, which tests compare with a real screen, and other pictures."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from symphony.operations import drawing, graph
from tests.documents import blocks, screens
from tests.sandbox import ROOT, Sandbox, sandbox_in

SCREENS = Path(__file__).parent.parent / "docs" / "screens"
WIDTH = 84
# The colours of the states, as symphony uses them on a terminal.
STYLES = {
    r"^\$ .*": "bold",
    r"^\+": "green",
    r"^ *(process|group) .*": "dim",
    r"\b(started|running)\b": "green",
    r"^(ada|grace|server) +\|": "cyan",
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
    return drawing.svg(graph.build("surreal", plan["backend"], plan["processes"], plan["services"]))


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
    from tests.cli.top_views import Scripted, view

    app = Live(Scripted(view()))
    async with app.run_test(size=(100, 14)) as pilot:
        await pilot.pause()
        while not app.query_one("#services").display:
            await pilot.pause(0.05)
        svg = re.sub(r"terminal-\d+", "top", app.export_screenshot(title="symphony top rl"))
        # Other programs than browsers drop the spaces at the ends of texts.
        return svg.replace("<svg ", '<svg xml:space="preserve" ', 1)


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
    (SCREENS / "top.svg").write_text(asyncio.run(top()), encoding="utf-8")
