"""The declared code of a process, which starts only with the code of the plan."""

from __future__ import annotations

import time
from functools import lru_cache

import msgspec

from symphony.content import code_files, digests

CHANGED = "its code has changed since the plan"


class DeclaredCode(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of `code=`, the folder of the project, and the digest in the plan."""

    texts: tuple[str, ...]
    folder: str
    digest: str

    def has_changed(self) -> bool:
        """Return whether the files have changed or cannot be read."""
        try:
            return not _digest(self.texts, self.folder, int(time.monotonic())).startswith(self.digest)
        except (OSError, RuntimeError, ValueError):
            return True


@lru_cache(maxsize=8)
def _digest(texts: tuple[str, ...], folder: str, _second: int) -> str:
    """Return the digest of all files, cached since thousands of processes may have the same code."""
    digests_of = (code_files.files_of(text, folder) for text in texts)
    return digests.of_all({name: digest for files in digests_of for name, digest in files.items()})
