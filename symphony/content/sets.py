"""Many files with their digests: one digest for all, and in which files two such sets differ. Pure."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

LENGTH = 32


def of_all(digests: Mapping[str, str]) -> str:
    """Thirty-two hex digits for files, name -> digest, in whichever order."""
    whole = hashlib.sha256()
    for name in sorted(digests):
        whole.update(os.fsencode(name) + b"\0" + digests[name].encode() + b"\0")
    return whole.hexdigest()[:LENGTH]


def changed_names(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The names of the files that are not the same, those that are in one of them only among them."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
