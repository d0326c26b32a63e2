"""Shell text that has bash tell which lines of cmds failed, in the log and in a file that `why` reads.

As in any shell the next lines run. Each line is told once a start, however often it fails.
"""

from __future__ import annotations

from pathlib import Path

from symphony import files

NAME = "failed-lines"
NOTE = b"[symphony: line "
_TELLER = r"""
_symphony_told= _symphony_file=FILE; { : >"$_symphony_file"; } 2>/dev/null
_symphony_tell() { [[ $3 != 1 || $_symphony_told == *" $2 "* ]] || {
_symphony_told+=" $2 "
printf -v _symphony_line 'line %d failed with exit %d: %s' $(($2 - BEFORE)) "$1" "${4%%$'\n'*}"
printf '[symphony: %s]\n' "$_symphony_line" >&2
{ printf '%s\n' "$_symphony_line" >>"$_symphony_file"; } 2>/dev/null; }; }
trap '_symphony_tell "$?" "$LINENO" "${#BASH_SOURCE[@]}" "$BASH_COMMAND"' ERR
""".strip()


def teller(file: bytes, before: int) -> list[bytes]:
    """Lines to stand before the user's own; before: how many stand before these. file: quoted."""
    lines = _TELLER.encode().replace(b"FILE", file).splitlines()
    return [line.replace(b"BEFORE", str(before + len(lines)).encode()) for line in lines]


def read(folder: Path) -> list[str]:
    """What was told of the last start of the process with this folder."""
    try:
        return files.read(folder / NAME).decode(errors="replace").splitlines()
    except OSError:
        return []
