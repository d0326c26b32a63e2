"""`run_program`: runs the program of the current stack, stacks/rl.py for `rl` and `rl.gke`."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path

import pulumi

from symphony.backends import settings_reader
from symphony.components.run import refused, require_root, settings
from symphony.errors import SymphonyError
from symphony.plan.names import near

_LIBRARIES = tuple(
    f"{Path(str(module.__file__)).resolve().parent}{os.sep}" for module in (pulumi, sys.modules["symphony"])
)


def run_program(folder: str | Path = "stacks") -> None:
    """Run the program of the current stack: stacks/rl.py for `rl` and `rl.gke`.

    Args:
        folder: The folder of the programs; the setting symphony:program overrides the program's name.

    Raises:
        pulumi.RunError: The program does not exist, or raises an error itself.

    Example:
        run_program("stacks")
    """
    require_root()
    home = Path(folder)
    stack = pulumi.get_stack()
    _refuse_unread_settings(home, stack)
    try:
        name = settings().program or stack.partition(".")[0]
    except SymphonyError as error:
        raise refused(error) from None
    file = home / f"{name}.py"
    if not file.is_file():
        programs = sorted(path.stem for path in home.glob("*.py") if not path.stem.startswith("_"))
        listed = f"{', '.join(programs[:10]) or 'none yet'}{', …' if len(programs) > 10 else '.'}"
        similar = near(name, programs)
        hint = f"Did you mean {' or '.join(similar)}?" if similar else f"The programs in {home} are: {listed}"
        raise pulumi.RunError(f"stack {stack} has no program: {file} does not exist. {hint}")
    sys.path.insert(0, str(home.resolve()))
    try:
        runpy.run_path(str(file), run_name="__main__")
    except pulumi.RunError:
        raise
    except SymphonyError as error:
        raise refused(error) from None
    except Exception as error:
        raise pulumi.RunError(_own_traceback(error, file)) from None


def _refuse_unread_settings(home: Path, stack: str) -> None:
    """Refuse a settings file beside the program that the engine, as Pulumi.yaml tells it, does not read."""
    unread = home / f"Pulumi.{stack}.yaml"
    own, project = (*settings_reader.files_of(Path.cwd(), stack), None, None)[:2]
    if own is not None and unread.is_file() and unread.resolve() != own.resolve():
        raise pulumi.RunError(
            f"{unread} is not read: the settings of {stack} are in {own.name} beside {project}."
            f" Set `stackConfigDir: {home}` in {project}, or move the file."
        )


def _own_traceback(error: BaseException, file: Path) -> str:
    """Return the traceback without the lines of symphony and of its callers."""
    report, path = traceback.TracebackException.from_exception(error), file.absolute()
    shown: traceback.TracebackException | None = report
    while shown is not None:
        first = next(
            (i for i, frame in enumerate(shown.stack) if Path(frame.filename).absolute() == path), None
        )
        shown.stack = traceback.StackSummary.from_list(_user_frames(shown.stack, first))
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
    return "".join(report.format()).rstrip()


def _user_frames(stack: traceback.StackSummary, first: int | None) -> list[traceback.FrameSummary]:
    own = [frame for frame in stack[first or 0 :] if first is not None]
    while own and own[-1].filename.startswith(_LIBRARIES):
        own.pop()
    return own
