"""Runs another program with a deadline, and reports its failure in one sentence; tells progress."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


class ToolchainError(Exception):
    """An error that is shown in one line."""


def run(argv: Sequence[str | Path], *, timeout: float = 30, stdin: str | None = None) -> str:
    """Run the program and return its standard output; raise ToolchainError if it fails or takes too long."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
    except FileNotFoundError as error:
        raise ToolchainError(f"{words[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"{' '.join(words[:4])} did not finish in {timeout:g} s") from error
    if done.returncode:
        message = (done.stderr or done.stdout).strip().splitlines()
        raise ToolchainError(f"{' '.join(words[:4])} failed ({done.returncode}): {' / '.join(message[-2:])}")
    return done.stdout


def succeeds(argv: Sequence[str | Path], *, timeout: float = 30) -> bool:
    """Return whether a program ran and returned 0."""
    try:
        run(argv, timeout=timeout)
    except ToolchainError:
        return False
    return True


def say(text: str) -> None:
    """Write a line of progress to standard error."""
    sys.stderr.write(f"{text}\n")
