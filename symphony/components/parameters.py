"""`params`: the parameters of a program, which are typed settings of its stack with defaults."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pulumi

from symphony import run_request
from symphony.backends import settings_reader
from symphony.components.run import in_program, refused, report_facts
from symphony.errors import UserError
from symphony.plan.names import listed, nearest, quoted

_TYPE_NAMES: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def params(**defaults: bool | float | str) -> Any:
    """Return the parameters of the program as attributes: the stack's settings, else these defaults.

    `symphony up NAME -c lr=0.3` sets a parameter for a run, `pulumi config set lr 0.3` for the stack. Call
    params() once in a program. In a plain script, all parameters have their defaults.

    Args:
        defaults: The default of each parameter, which also determines its type.

    Raises:
        UserError: A setting has another type than the default, or looks like a misspelt parameter.

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
        raise refused(error) from None
    report_facts({"parameters": rows})
    return SimpleNamespace(**{name: row["value"] for name, row in rows.items()})


def _read(defaults: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return name -> value, default and origin of each parameter."""
    project, config = pulumi.get_project(), pulumi.Config()
    places = settings_reader.places(*settings_reader.files_of(Path.cwd(), pulumi.get_stack()))
    requested = run_request.current().parameters
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
        try:
            value: Any = default if text is None else msgspec.convert(text, types[name], strict=False)
        except msgspec.ValidationError:
            expected = _TYPE_NAMES.get(types[name], "another type")
            what = f"the parameter {name} is {quoted(text or '')}"
            remedy = f"Set it to {expected}, such as its default {default!r}"
            raise UserError(what, where=where(name), remedy=remedy) from None
        origin = "default" if text is None else where(name) or "settings"
        rows[name] = {"value": value, "default": default, "from": origin}
    return rows
