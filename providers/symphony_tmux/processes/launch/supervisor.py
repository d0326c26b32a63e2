"""The command that runs a process under its supervisor, `supervise.pl`."""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
from functools import lru_cache
from pathlib import Path

from symphony import files, paths
from symphony_tmux.processes import process_table

PROGRAM = Path(__file__).with_name("supervise.pl")
# What it opens its files with.
FLAGS = ("RDWR", "WRONLY", "APPEND", "CREAT", "TRUNC", "NONBLOCK", "NOFOLLOW", "NOCTTY")
PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")


@lru_cache(maxsize=1)
def perl() -> str:
    """What runs the supervisor; without one a process runs, is logged, and nothing starts it again."""
    program = shutil.which("perl") or ""
    return program if PLAIN.fullmatch(program) else ""


def command() -> list[str]:
    """To be run in the home of symphony; what follows it are the arguments that supervise.pl names."""
    return [perl(), _installed(paths.home(), PROGRAM)]


def content(program: Path) -> bytes:
    """The supervisor with the constants of this system before it."""
    constants = {f"O_{name}": getattr(os, f"O_{name}") for name in FLAGS} | {"F_SETFL": fcntl.F_SETFL}
    lines = [f"sub {name}() {{ {value} }}\n" for name, value in constants.items()]
    lines += [f"sub SYSTEM() {{ '{platform.system()} {platform.machine()}' }}\n"]
    return "".join(lines).encode() + program.read_bytes()


@lru_cache(maxsize=8)
def _installed(home: Path, program: Path) -> str:
    """A copy under a name that is safe in every command; a newer version of symphony has another name."""
    wanted = content(program)
    name = f"supervise-{process_table.short_hash(wanted)}.pl"
    target = home / "tmux" / name
    if not target.exists() or target.read_bytes() != wanted:
        files.replace(target, wanted)
    return f"tmux/{name}"
