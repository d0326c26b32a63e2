"""The programs and screens in the documentation, and their comparison with real output."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from tests.sandbox import ROOT, SYMPHONY, Sandbox
from tests.terminal import terminal

# What differs between runs: times, ports, and the order of processes.
MASKS = (
    (r"^(  \S+ +(?:started|restarted|stopped|running)) *(\d+\.\d s)?$", r"\1"),
    (r"\d+\.\d s", "SECONDS"),
    (r"\d+(\.\d)? [kM]B", "SIZE"),
    (r"running: \d+s", "running: TIME"),
    (r":\d{4,5}\b", ":PORT"),
    (r"(ada|grace) says hello", "NAME says hello"),
)
FILES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "caraml" / "README.md")


def text(name: str) -> str:
    """Return a document of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def talk() -> str:
    """Return the program of README.md with caraml: `python talk.py learner` pulls, any other word pushes."""
    pull, push = blocks("README.md", "python")[-1].split("pusher = ")
    branches = (f"if sys.argv[1] == 'learner':\n{pull}", f"else:\npusher = {push}pusher.close()\n")
    lines = "".join(textwrap.indent(branch, "    ").removeprefix("    ") for branch in branches)
    return f"import sys\n\nimport caraml\nimport numpy as np\n\n{lines}"


def blocks(name: str, language: str) -> list[str]:
    """Return the fenced blocks of a language in a document, in order."""
    result = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text(name), re.M | re.S)
    return [textwrap.dedent(body) for _, its, body in result if its == language]


def screens(text: str) -> dict[str, list[str]]:
    """Return the commands in a text with the lines that they show."""
    result: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("$ "):
            result[line[2:]] = []
        else:
            result[[*result][-1]].append(line)
    return result


def shape(lines: list[str]) -> list[str]:
    """Return the sorted lines, with everything masked that differs between runs."""
    masked = []
    for line in lines:
        for pattern, name in MASKS:
            line = re.sub(pattern, name, line)
        masked.append(line.rstrip())
    return sorted(masked)


def on_a_terminal(sandbox: Sandbox, command: str, *, answer: str = "", code: int = 0) -> list[str]:
    """Return the lines on the screen of a user who types a command and answers its questions."""
    with terminal(sandbox, [str(SYMPHONY), *command.split()[1:]], columns=120) as person:
        if answer:
            person.shows("[y/N]")
            person.type(answer, "Enter")
        assert person.ends() == code
        lines = person.history().splitlines()
    return [line for line in lines if line and not line.startswith("Pane is dead")]


def anchor(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def anchors(file: Path) -> set[str]:
    """Return the anchors of the headings of a document."""
    return {anchor(each) for each in re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.M)}
