"""Runs the program of the current stack: `rl` and `rl.gke` are stacks/rl.py; a root __main__.py calls it."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path

import pulumi

from symphony.plan.names import nearest


def run_program(folder: str | Path = "stacks") -> None:
    """Run stacks/<program>.py; config symphony:program names another one. RunError: there is no such file."""
    home = Path(folder)
    stack = pulumi.get_stack()
    name = pulumi.Config("symphony").get("program") or stack.partition(".")[0]
    file = home / f"{name}.py"
    if not file.is_file():
        programs = sorted(each.stem for each in home.glob("*.py") if not each.stem.startswith("_"))
        near = nearest(name, programs)
        hint = f"Did you mean {near}?" if near else f"The programs are: {', '.join(programs) or 'none yet'}."
        raise pulumi.RunError(f"stack {stack} has no program: there is no {file}. {hint}")
    sys.path.insert(0, str(home.resolve()))
    try:
        runpy.run_path(str(file), run_name="__main__")
    except pulumi.RunError:
        raise
    except Exception as error:
        raise pulumi.RunError(_own_traceback(error, file)) from None


def _own_traceback(error: BaseException, file: Path) -> str:
    """The traceback from the program's own first line on: what called the program helps nobody."""
    trace = error.__traceback__
    while trace is not None and not _is_file(trace.tb_frame.f_code.co_filename, file):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def _is_file(name: str, file: Path) -> bool:
    return Path(name).absolute() == file.absolute()
