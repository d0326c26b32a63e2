"""Names that a user types: an exact name, else a part that only one name has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from symphony.errors import UserError
from symphony.plan.names import is_same, listed, near, shown


def match(word: str, names: Iterable[str], kind: str) -> str:
    """Return the one name that a word stands for.

    The word is the name itself in any spelling that Kubernetes maps to it, the name of a process without its
    group, or a part of just one name.

    Args:
        word: What the user typed.
        names: The names of all candidates.
        kind: The kind of the candidates, for messages, such as "process".

    Raises:
        UserError: No name or several names match.
    """
    known = sorted(names)
    last = word.rpartition("/")[2] == word
    candidates = (
        [name for name in known if name == word]
        or [name for name in known if is_same(name, word)]
        or [name for name in known if last and is_same(name.rpartition("/")[2], word)]
        or [name for name in known if word and word in name]
    )
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise UserError(f"{shown(word)} could be {listed(candidates)}", remedy=f"Write the whole {kind} name")
    similar = " or ".join(map(shown, near(word, known)))
    remedy = f"Did you mean {similar}?" if similar else f"Known: {listed(known) or 'none'}"
    raise UserError(f"there is no {kind} {shown(word)}", remedy=remedy)


def match_processes(words: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Return the processes that names, groups and shell patterns stand for, in the order of the experiment.

    Args:
        words: Names, groups or patterns; none stands for all processes.
        paths: All processes of the experiment, as `name` or `group/name`.

    Raises:
        UserError: A word matches no process, or a name matches several.
    """
    if not words:
        return list(paths)
    groups = {path.rpartition("/")[0] for path in paths} - {""}
    matched: set[str] = set()
    for word in words:
        if any(mark in word for mark in "*?["):
            # `agents/*` stands for paths, `worker-*` for names in any group.
            found = [p for p in paths if fnmatchcase(p, word) or fnmatchcase(p.rpartition("/")[2], word)]
            if not found:
                raise UserError(f"no process matches {shown(word)}", remedy=f"Known: {listed(paths)}")
            matched.update(found)
        elif word not in paths and (group := next((g for g in groups if is_same(g, word.rstrip("/"))), "")):
            matched.update(path for path in paths if path.startswith(f"{group}/"))
        else:
            matched.add(match(word, paths, "process"))
    return [path for path in paths if path in matched]
