"""The one home of naming: alphabets, length, mapping, near names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MAX_NAME = 63
_NAME = re.compile(r"[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_EXPERIMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_name(name: str) -> bool:
    """Letters, digits, `_` and inner dashes, at most 63: the names of processes, groups, services."""
    return _NAME.fullmatch(name) is not None


def is_label(name: str) -> bool:
    """Lower-case letters, digits and inner dashes, at most 63: a DNS label, as on Kubernetes."""
    return _LABEL.fullmatch(name) is not None


def is_experiment(name: str) -> bool:
    """What Pulumi accepts for a stack: letters, digits, dashes, underscores and dots, at most 63."""
    return _EXPERIMENT.fullmatch(name) is not None


def is_variable(name: str) -> bool:
    """A name that every shell accepts for an environment variable."""
    return _VARIABLE.fullmatch(name) is not None


def why_not_name(name: str) -> str:
    """What is wrong with a name, as the remedy to show."""
    return _why_not(name, as_name(name), 'use letters, digits, "-" and "_"')


def why_not_label(name: str) -> str:
    """What is wrong with a DNS label, as the remedy to show."""
    return _why_not(name, as_label(name), 'use lower-case letters, digits and "-"')


def _why_not(name: str, suggestion: str, remedy: str) -> str:
    if not name:
        return "a name needs at least one letter or digit"
    if len(name) > MAX_NAME:
        return f"names have at most {MAX_NAME} characters, this one has {len(name)}"
    return f'{remedy}: "{suggestion}"' if suggestion else remedy


def as_name(name: str) -> str:
    """The name itself where it is legal, else the nearest that is, or nothing.

    >>> as_name("agent_0"), as_name("My.Exp"), as_name("modèle 1")
    ('agent_0', 'My-Exp', 'modele-1')
    """
    return name if is_name(name) else _mapped(r"[^A-Za-z0-9_]+", _unaccented(name))


def as_label(name: str) -> str:
    """The name itself where it is a DNS label, else the nearest that is, or nothing.

    >>> as_label("agent_0"), as_label("Joy"), as_label("My.Exp"), as_label("__")
    ('agent-0', 'joy', 'my-exp', '')
    """
    return name if is_label(name) else _mapped(r"[^a-z0-9]+", _unaccented(name).lower())


def as_stack(name: str) -> str:
    """The name itself where a stack may have it, else the nearest."""
    return name if is_experiment(name) else as_name(name) or name


def is_same(each: str, other: str) -> bool:
    """Whether two paths are one where names are mapped: `agents/agent_0` is `agents/agent-0`."""
    return _folded(each) == _folded(other)


def _folded(path: str) -> list[str]:
    return [as_label(part) or part for part in path.split("/")]


def _mapped(others: str, name: str) -> str:
    return re.sub(others, "-", name)[:MAX_NAME].strip("-")


def _unaccented(name: str) -> str:
    if name.isascii():
        return name
    # Most names are ASCII.
    import unicodedata

    plain = "".join(each for each in unicodedata.normalize("NFKD", name) if not unicodedata.combining(each))
    # Of a letter that is none then nobody knows what it should be.
    return "" if any(each.isalnum() and not each.isascii() for each in plain) else plain


def launched_name(stack: str, *, label: bool) -> str:
    """What a stack's experiment is called in its backend; label: that one wants a DNS label."""
    name = stack.rpartition("/")[2].replace(".", "-")
    return (as_label(name) if label else as_name(name)) or name


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


def listed(names: Sequence[str], most: int = 10) -> str:
    """The first of some names for a message, and whether there are more: `a, b, …`."""
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def printable(text: str, limit: int = 0) -> str:
    """A text on one line, without a character that a terminal would act on, not longer than a limit."""
    escaped = text if text.isprintable() else "".join(map(_escaped, text[: limit or None]))
    return escaped if not limit or len(escaped) <= limit else escaped[: limit - 1] + "…"


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
