"""The one home of naming: alphabet, length, launched name, near names."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_NAME = 63
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_EXPERIMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_label(name: str) -> bool:
    """Lower-case letters, digits and inner dashes, at most 63: a DNS label, and safe as a tmux name."""
    return _LABEL.fullmatch(name) is not None


def is_experiment(name: str) -> bool:
    """What Pulumi accepts for a stack: letters, digits, dashes, underscores and dots, at most 63."""
    return _EXPERIMENT.fullmatch(name) is not None


def is_variable(name: str) -> bool:
    """A name that every shell accepts for an environment variable."""
    return _VARIABLE.fullmatch(name) is not None


def why_not_label(name: str) -> str:
    """What is wrong with a name, as the remedy to show."""
    if not name:
        return "a name needs at least one letter or digit"
    if len(name) > MAX_NAME:
        return f"names have at most {MAX_NAME} characters, this one has {len(name)}"
    if suggestion := as_label(name):
        return f'use lower-case letters, digits and "-": "{suggestion}"'
    return 'use lower-case letters, digits and "-"'


def as_label(name: str) -> str:
    """The nearest allowed name, or nothing where there is none."""
    import unicodedata

    # Without their accents; of a letter that is none then nobody knows what it should be.
    plain = "".join(each for each in unicodedata.normalize("NFKD", name) if not unicodedata.combining(each))
    if any(each.isalnum() and not each.isascii() for each in plain):
        return ""
    return re.sub(r"[^a-z0-9]+", "-", plain.lower())[:MAX_NAME].strip("-")


def launched_name(stack: str) -> str:
    """What a stack's experiment is called in its backend: the stack's name with `.` turned into `-`."""
    return stack.rpartition("/")[2].replace(".", "-")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one most likely meant."""
    return next(iter(near(name, known, 1)), None)


def near(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names that a mistyped one may have meant, the most likely first."""
    import difflib

    return difflib.get_close_matches(name, list(known), n=most, cutoff=0.6)


def shown(name: object, limit: int = 60) -> str:
    """A name as it may stand in a message: quoted, escaped, not longer than limit."""
    return f'"{printable(name if isinstance(name, str) else repr(name), limit)}"'


def printable(text: str, limit: int = 0) -> str:
    """A text on one line, without a character that a terminal would act on, not longer than a limit."""
    escaped = text if text.isprintable() else "".join(map(_escaped, text[: limit or None]))
    return escaped if not limit or len(escaped) <= limit else escaped[: limit - 1] + "…"


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
