"""Shell text that has bash tell which lines failed, in the log and in a file that `why` reads.

A line of preamble_cmds that fails ends the process, which would else run in the wrong environment. After a
line of cmds that fails the next ones run, as in any shell. A line is told once a start, however often it
fails.
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
printf -v _symphony_line 'line %d failed with exit %d: %s' $(($2 - _symphony_before)) "$1" "${4%%$'\n'*}"
[[ $_symphony_after != exit ]] || _symphony_line="preamble_cmds $_symphony_line (|| true behind it goes on)"
printf '[symphony: %s]\n' "$_symphony_line" >&2
{ printf '%s\n' "$_symphony_line" >>"$_symphony_file"; } 2>/dev/null
[[ $_symphony_after != exit ]] || exit "$1"; }; }
trap '_symphony_tell "$?" "$LINENO" "${#BASH_SOURCE[@]}" "$BASH_COMMAND"' ERR
""".strip()


def teller(file: bytes) -> list[bytes]:
    """Return the lines that tell of failing ones from then on; file: quoted, where they are written."""
    return _TELLER.encode().replace(b"FILE", file).splitlines()


def section(before: int, *, ends: bool) -> bytes:
    """Return the line in front of lines of the user; before: how many stand above it in the file."""
    return b"_symphony_before=%d _symphony_after=%s" % (before + 1, b"exit" if ends else b"continue")


def read(folder: Path) -> list[str]:
    """Return the failed lines of the last start of the process with this folder."""
    try:
        return files.read(folder / NAME).decode(errors="replace").splitlines()
    except OSError:
        return []
