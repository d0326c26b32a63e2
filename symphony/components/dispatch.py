"""`run_program`: runs the program of the current stack, stacks/rl.py for `rl` and `rl.gke`."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path

import pulumi

from symphony.backends import settings_reader
from symphony.components.run import refused, require_root, settings
from symphony.errors import SymphonyError
from symphony.plan.names import near


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
        trace = error.__traceback__
        # The frames before the program's are symphony's and Pulumi's.
        while trace is not None and trace.tb_frame.f_code.co_filename != str(file):
            trace = trace.tb_next
        report = "".join(traceback.format_exception(error.with_traceback(trace)))
        raise pulumi.RunError(report.rstrip()) from None


def _refuse_unread_settings(home: Path, stack: str) -> None:
    """Refuse a settings file beside the program if Pulumi.yaml makes the engine read another one."""
    unread = home / f"Pulumi.{stack}.yaml"
    settings_file, project = (*settings_reader.files_of(Path.cwd(), stack), None, None)[:2]
    if settings_file is not None and unread.is_file() and unread.resolve() != settings_file.resolve():
        raise pulumi.RunError(
            f"{unread} is not read: the settings of {stack} are in {settings_file.name} beside {project}."
            f" Set `stackConfigDir: {home}` in {project}, or move the file."
        )
