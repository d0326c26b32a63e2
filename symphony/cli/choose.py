"""Asks which one when a name matches several and there is a person to ask; the commands call it."""

from __future__ import annotations

import sys

from symphony.cli.screen import clean
from symphony.operations import stacks
from symphony.operations.matching import AmbiguousError


def experiment(said: str | None) -> stacks.Stack:
    """The experiment a person means."""
    try:
        return stacks.one(said)
    except AmbiguousError as error:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        return stacks.one(_asked(error.candidates))


def confirmed(question: str) -> bool:
    """Whether the person says yes; anything else, and the end of input, is no."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def _asked(candidates: tuple[str, ...]) -> str:
    for number, name in enumerate(candidates, 1):
        print(f"  {number}  {clean(name)}")
    while True:
        try:
            answer = input("Which one? ").strip()
        except EOFError:
            raise KeyboardInterrupt from None
        if answer in candidates:
            return answer
        if answer.isdigit() and 1 <= int(answer) <= len(candidates):
            return candidates[int(answer) - 1]
