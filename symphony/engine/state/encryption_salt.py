"""Settings with the encryptionsalt of somebody else's passphrase.

The engine refuses such a file also where nothing is encrypted with it: it reads the salt before all else.
"""

from __future__ import annotations

from pathlib import Path

_LINE = "encryptionsalt:"


def is_refused(given: str) -> bool:
    """Whether the engine says that the passphrase is not the one of the salt."""
    return "incorrect passphrase" in given


def without(file: Path) -> str | None:
    """The settings without the salt; None when they have none, or a secret of theirs needs it."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.is_file() else []
    kept = [line for line in lines if not line.startswith(_LINE)]
    return None if len(kept) == len(lines) or any("secure:" in line for line in lines) else "".join(kept)


def replaced(file: Path) -> str:
    """What to tell a person whose settings got another salt."""
    return (
        f"the encryptionsalt in {file} belonged to another passphrase and encrypted nothing:"
        " it is yours now; commit the file without that line"
    )
