"""Takes the text of a Python traceback apart: the user's own frames, the exception."""

from __future__ import annotations

import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path

HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)')
_NAMED = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$", re.DOTALL)
_OURS = re.compile(r"^symphony(?:_\w+)?\.")
_NOT_THE_USERS = ("<frozen ", "pulumi-language-python-exec", "/site-packages/", "/dist-packages/")
_PACKAGES = (Path(__file__).parents[1],)


@dataclass(frozen=True, slots=True)
class Traceback:
    """The last exception of a text.

    name:   the exception's class, with its module unless that is builtins.
    text:   its message, which may have several lines.
    frames: the lines that show the user's own code, outermost first.
    where:  file:line of the innermost of them; empty when none is the user's.
    """

    name: str
    text: str
    frames: tuple[str, ...]
    where: str

    @property
    def is_ours(self) -> bool:
        """Whether symphony or a provider of it raised this on purpose."""
        return bool(_OURS.match(self.name))

    @property
    def short(self) -> str:
        name = self.name.rpartition(".")[2]
        return f"{name}: {self.text}" if self.text else name


def find(message: str) -> Traceback | None:
    """The last traceback in a message, if there is one."""
    _, head, text = message.rpartition(HEAD)
    if not head:
        return None
    blocks: list[list[str]] = []
    ending: list[str] = []
    for line in text.strip("\n").splitlines():
        if _FRAME.match(line):
            blocks.append([line])
        elif blocks and line.startswith("  ") and not ending:
            blocks[-1].append(line)
        else:
            ending.append(line)
    own = [block for block in blocks if _is_users(block[0])]
    match = _NAMED.match("\n".join(ending).strip())
    return Traceback(
        name=match["name"] if match else "error",
        text=((match["text"] or "") if match else "\n".join(ending)).strip(),
        frames=tuple(line for block in own for line in block),
        where=_place(own[-1][0]) if own else "",
    )


def _is_users(frame: str) -> bool:
    match = _FRAME.match(frame)
    file = match["file"] if match else ""
    library = sysconfig.get_path("stdlib")
    if any(part in file for part in _NOT_THE_USERS) or file.startswith(f"{library}/"):
        return False
    return not any(file.startswith(f"{package}/") for package in _PACKAGES)


def _place(frame: str) -> str:
    match = _FRAME.match(frame)
    return f"{match['file']}:{match['line']}" if match else ""
