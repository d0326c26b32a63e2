"""Naming rules: alphabets, lengths, mapping to valid names, near matches, quoting."""

import difflib
import re
from collections.abc import Iterable, Sequence

# The only input of symphony's components. Pulumi makes every input an attribute, and an input called `binds`
# would hide the method.
DECLARED = "declared"
# A variable of equal workers; its value is the prefix of the variables of their rendezvous service.
RENDEZVOUS = "SYMPHONY_RENDEZVOUS"
MAX_NAME = 63
_NAME = re.compile(r"[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_EXPERIMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_name(name: str) -> bool:
    """Return whether a process may have the name: at most 63 letters, digits, `_` and inner dashes."""
    return _NAME.fullmatch(name) is not None


def is_label(name: str) -> bool:
    """Return whether a name is a DNS label: lower-case letters, digits and inner dashes, at most 63."""
    return _LABEL.fullmatch(name) is not None


def is_experiment(name: str) -> bool:
    """Return whether an experiment may have the name: a letter or digit, then at most 62 of them or `-_.`."""
    return _EXPERIMENT.fullmatch(name) is not None


def is_variable(name: str) -> bool:
    """Return whether every shell accepts the name for an environment variable."""
    return _VARIABLE.fullmatch(name) is not None


def name_remedy(name: str) -> str:
    """Return the remedy for an invalid name."""
    return _remedy(name, as_name(name), 'use letters, digits, "-" and "_"')


def label_remedy(name: str) -> str:
    """Return the remedy for an invalid DNS label."""
    return _remedy(name, as_label(name), 'use lower-case letters, digits and "-"')


def _remedy(name: str, suggestion: str, remedy: str) -> str:
    if not name:
        return "use at least one letter or digit"
    if len(name) > MAX_NAME:
        return f"shorten it from {len(name)} to at most {MAX_NAME} characters"
    return f'{remedy}, such as "{suggestion}"' if suggestion else remedy


def as_name(name: str) -> str:
    """Return the name if it is valid, else the nearest valid name, or an empty string.

    >>> as_name("agent_0"), as_name("My.Exp"), as_name("modèle 1")
    ('agent_0', 'My-Exp', 'modele-1')
    """
    return name if is_name(name) else _mapped(r"[^A-Za-z0-9_]+", _unaccented(name))


def as_label(name: str) -> str:
    """Return the name if it is a DNS label, else the nearest label, or an empty string.

    >>> as_label("agent_0"), as_label("Joy"), as_label("My.Exp"), as_label("__")
    ('agent-0', 'joy', 'my-exp', '')
    """
    return name if is_label(name) else _mapped(r"[^a-z0-9]+", _unaccented(name).lower())


def as_stack(name: str) -> str:
    """Return the name if an experiment may have it, else the nearest valid name; itself if there is none."""
    return name if is_experiment(name) else as_name(name) or name


def is_same(path: str, other: str) -> bool:
    """Return whether two paths map to the same labels: `agents/agent_0` and `agents/agent-0`."""
    return _labels(path) == _labels(other)


def _labels(path: str) -> list[str]:
    return [as_label(part) or part for part in path.split("/")]


def _mapped(invalid: str, name: str) -> str:
    return re.sub(invalid, "-", name)[:MAX_NAME].strip("-")


def _unaccented(name: str) -> str:
    if name.isascii():
        return name
    # Imported here, since most names are ASCII.
    import unicodedata

    plain = "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
    # A letter without an ASCII form has no obvious replacement.
    return "" if any(char.isalnum() and not char.isascii() for char in plain) else plain


def physical_name(stack: str, *, label: bool) -> str:
    """Return the name of a stack's experiment in its backend; label: whether it must be a DNS label."""
    name = stack.rpartition("/")[2].replace(".", "-")
    return (as_label(name) if label else as_name(name)) or name


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to a mistyped name."""
    return next(iter(near(name, known)), None)


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a remedy with the known name most similar to a mistyped name, or another remedy.

    >>> did_you_mean("lerner", ["learner"], "declare it")
    'did you mean "learner"?'
    """
    similar = nearest(name, known)
    return f"did you mean {quoted(similar)}?" if similar else otherwise


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three known names similar to a mistyped name, the best match first."""
    names = list(known)
    in_groups = [other for other in names if other.rpartition("/")[2] == name]
    return in_groups[:3] or difflib.get_close_matches(name, names)


def quoted(name: object, limit: int = 60) -> str:
    """Return a name for a message: quoted, escaped, not longer than limit."""
    return f'"{printable(name if isinstance(name, str) else repr(name), limit)}"'


def listed(names: Sequence[str], most: int = 10) -> str:
    """Return names for a message, shortened: `a, b, …`."""
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def and_more(names: Sequence[str], most: int) -> str:
    """Return names for a message, shortened: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def printable(text: str, limit: int = 0) -> str:
    """Return a text on a single line, with control characters escaped, not longer than a limit."""
    if not text.isprintable():
        shortened = text[: limit or None]
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shortened)
    return text if not limit or len(text) <= limit else text[: limit - 1] + "…"


def sort_key(path: str) -> tuple[object, ...]:
    """Return the key that sorts ungrouped processes first, agent-2 before agent-10, lr0_001 before lr0_01."""
    group, _, name = path.rpartition("/")
    return (_parts(group), _parts(name))


def _parts(text: str) -> tuple[tuple[int, float, str], ...]:
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((0, _number(part), "") if part[0] in "0123456789" else (1, 0.0, part) for part in parts)


def _number(digits: str) -> float:
    # Digits with a leading zero are decimals, or numbers that are padded.
    return float(f"0.{digits}" if digits[0] == "0" else digits)
