"""Copies files and folders between this machine and a process."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from symphony.backends.access import Copied, Tell
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.access import running
from symphony.plan.names import shown

# `learner:/data`, `agents/agent_0:runs`. A path that begins with . or / is never taken for one.
_REMOTE = re.compile(r"([^./~:][^/:]*(?:/[^./:][^/:]*)?):(.*)", re.DOTALL)


class Sides(NamedTuple):
    """One copy: which process, the path there, the path here, and whether it goes to the process."""

    process: str
    there: str
    here: str
    sends: bool


def sides(source: str, target: str) -> Sides:
    """What a copy is between. UserError: none or both of them are in a process."""
    if not source or not target:
        raise UserError("an empty path names no file")
    matches = [_REMOTE.fullmatch(each) for each in (source, target)]
    if matches[0] is not None and matches[1] is None:
        return Sides(matches[0][1], matches[0][2], target, sends=False)
    if matches[1] is not None and matches[0] is None:
        return Sides(matches[1][1], matches[1][2], source, sends=True)
    what = "both are in processes" if matches[0] else "neither is in a process"
    raise UserError(
        f"{shown(source)} and {shown(target)}: {what}",
        remedy="Write one as PROCESS:PATH, the other as a path here; ./a:b is a file here",
    )


def copy(stack: stacks.Stack, wanted: Sides, tell: Tell = lambda _: None) -> Copied:
    """Copy; an existing folder takes it in under its own name. tell: hears of each piece how long it is.

    UserError: no such process, file or folder.
    """
    result = running(stack)
    path = result.process(wanted.process)
    if wanted.sends:
        source = Path(os.path.abspath(wanted.here))  # noqa: PTH100 - a link keeps its own name
        return result.access.send(result.recorded, path, source, wanted.there, tell)
    name = PurePosixPath(wanted.there).name
    from symphony.backends.copying import final_name  # tarfile: only who fetches needs it

    final = final_name(wanted.here, name if name not in ("", "..") else path.rpartition("/")[2])
    return result.access.fetch(result.recorded, path, wanted.there, final, tell)
