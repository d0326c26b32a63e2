"""Settings with the encryptionsalt of somebody else's passphrase; making a stack and running one ask here.

The engine refuses such a file also where nothing is encrypted with it: it reads the salt before all else.
"""

from __future__ import annotations

from pathlib import Path

_LINE = "encryptionsalt:"


def is_refused(said: str) -> bool:
    """Whether the engine says that the passphrase is not the one of the salt."""
    return "incorrect passphrase" in said


def without(file: Path, own: str = "") -> str | None:
    """The settings without a foreign salt; None when they have none, or a secret of theirs needs it.

    own: the salt with which the state is encrypted.
    """
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.is_file() else []
    foreign = [line for line in lines if line.startswith(_LINE) and not (own and own in line)]
    if not foreign or any("secure:" in line for line in lines):
        return None
    return "".join(line for line in lines if line not in foreign)


def replaced(file: Path) -> str:
    """What to tell a person whose settings got another salt."""
    return (
        f"the encryptionsalt in {file} was of another passphrase and kept nothing secret:"
        " it is yours now; commit the file without that line"
    )
