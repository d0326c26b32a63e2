"""Runs the program of the current stack, such as stacks/rl.py for `rl.gke`, and gives it its parameters."""

import runpy
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pulumi

from symphony import run_request
from symphony.backends import settings_reader
from symphony.components.program_run import in_program, report_facts, require_root, run_error, settings
from symphony.errors import SymphonyError, UserError, suggestion
from symphony.plan.names import listed, near, nearest, quoted


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
        raise run_error(error) from None
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
        raise run_error(error) from None
    except Exception as error:
        trace = error.__traceback__
        # The frames before the program's are symphony's and Pulumi's.
        while trace is not None and trace.tb_frame.f_code.co_filename != str(file):
            trace = trace.tb_next
        report = "".join(traceback.format_exception(error.with_traceback(trace))).rstrip()
        raise pulumi.RunError(report + suggestion(error)) from None


def _refuse_unread_settings(home: Path, stack: str) -> None:
    """Refuse a settings file beside the program if Pulumi.yaml makes the engine read another one."""
    unread = home / f"Pulumi.{stack}.yaml"
    settings_file, project = (*settings_reader.files_of(Path.cwd(), stack), None, None)[:2]
    if settings_file is not None and unread.is_file() and unread.resolve() != settings_file.resolve():
        raise pulumi.RunError(
            f"{unread} is not read: the settings of {stack} are in {settings_file}."
            f" Set `stackConfigDir: {home}` in {project}, or move the file."
        )


_TYPE_NAMES: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def params(**defaults: bool | float | str) -> Any:
    """Return the parameters of the program as attributes: the stack's settings, else these defaults.

    `pulumi config set lr 0.3` sets a parameter of the stack, and so does `symphony up NAME -c lr=0.3`. Call
    params() once in a program. In a plain script, all parameters have their defaults.

    Args:
        defaults: The default of each parameter, which also determines its type.

    Raises:
        pulumi.RunError: A setting has another type than the default, or looks like a misspelt parameter.

    Example:
        params = symphony.params(lr=0.1, workers=4)
        with Experiment() as e:
            e.new_process("train", command=["python", "train.py", "--lr", str(params.lr)])
    """
    if not in_program():
        return SimpleNamespace(**defaults)
    try:
        rows = _read(defaults)
    except UserError as error:
        raise run_error(error) from None
    report_facts({"parameters": rows})
    return SimpleNamespace(**{name: row["value"] for name, row in rows.items()})


def _read(defaults: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return name -> value, default and origin of each parameter."""
    project, config = pulumi.get_project(), pulumi.Config()
    places = settings_reader.places(*settings_reader.files_of(Path.cwd(), pulumi.get_stack()))
    requested, unquoted = run_request.current().parameters, run_request.current().unquoted
    settings = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    names = [key.partition(":")[2] for key in settings if key.startswith(f"{project}:")]

    def where(name: str) -> str:
        return "the command line" if name in requested else str(places.get(f"{project}:{name}", ""))

    for name in dict.fromkeys([*requested, *names]):
        near = nearest(name, defaults)
        # Other settings may be read by the program itself.
        if name not in defaults and (near or name in requested):
            remedy = f"Did you mean {near}?" if near else f"Use one of: {listed([*defaults])}"
            what = f"{quoted(name)} is not a parameter of the program"
            raise UserError(what, where=where(name), remedy=remedy)
    rows: dict[str, dict[str, Any]] = {}
    types: dict[str, Any] = {name: type(default) for name, default in defaults.items()}
    for name, default in defaults.items():
        text = config.get(name)
        is_of_file = name in unquoted and name not in requested and text is not None
        if types[name] is str and is_of_file and text != unquoted[name]:
            what = f"the parameter {name}: YAML reads {unquoted[name]} as {text or 'nothing'}"
            raise UserError(what, where=where(name), remedy=f'Quote it: "{unquoted[name]}"')
        try:
            # .5 and 1. are numbers to Python and YAML, but not to msgspec.
            plain = float(text) if types[name] is float and text is not None else text
            value: Any = default if plain is None else msgspec.convert(plain, types[name], strict=False)
        except ValueError:
            expected = _TYPE_NAMES.get(types[name], "another type")
            what = f"the parameter {name} is {quoted(text or '')}"
            remedy = f"Set it to {expected}, such as its default {default!r}"
            raise UserError(what, where=where(name), remedy=remedy) from None
        origin = "default" if text is None else where(name) or "settings"
        rows[name] = {"value": value, "default": default, "from": origin}
    return rows
