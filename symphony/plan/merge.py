"""The settings of a process, with those of its group, the experiment and the backend."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.inputs.secret import Secret
from symphony.spec.process import ProcessSettings, ProcessSpec
from symphony.spec.setting import settings_of


def merge(
    spec: ExperimentSpec, group: ProcessGroupSpec | None, process: ProcessSpec, target: Target
) -> dict[str, Any]:
    """Return the value of every setting: lists and mappings joined, else the nearest."""
    result: dict[str, Any] = dict(zip(("env", "secret_env"), _variables(spec, group, process), strict=True))
    for name in settings_of(ProcessSettings):
        values = [target.defaults.get(name), *(getattr(each, name, None) for each in (spec, group, process))]
        if name not in result and (given := [value for value in values if value]):
            result[name] = _joined(given)
    return result


def _variables(*owners: ExperimentSpec | ProcessGroupSpec | ProcessSpec | None) -> tuple[Any, Any]:
    """Return the plain and the secret variables; the owner nearest to the process decides."""
    plain: dict[str, str] = {}
    hidden: dict[str, Secret] = {}
    for owner in filter(None, owners):
        plain = {name: value for name, value in plain.items() if name not in owner.secret_env}
        plain.update(owner.env)
        hidden = {name: value for name, value in hidden.items() if name not in owner.env}
        hidden.update(owner.secret_env)
    return plain, hidden


def ineffective(settings: Mapping[str, Any], target: Target) -> tuple[str, ...]:
    """Return the settings of a process that have no effect beside others of it, or beside its image.

    In a container cmds run where there is neither a command nor args; elsewhere cmds win. A relative
    start_dir begins at the folder of the program, which a container does not have.
    """
    if target.starts == "image":
        direct = settings.get("command") or settings.get("args")
        without_effect = ("cmds", "preamble_cmds") if direct or not settings.get("cmds") else ()
        if not str(settings.get("start_dir", "/")).startswith("/"):
            without_effect += ("start_dir",)
    else:
        without_effect = ("command", "args") if settings.get("cmds") else ()
    return tuple(name for name in without_effect if settings.get(name))


def _joined(values: list[Any]) -> Any:
    nearest = values[-1]
    if isinstance(nearest, tuple):
        return tuple(chain.from_iterable(values))
    if isinstance(nearest, Mapping):
        return {name: each for value in values for name, each in value.items()}
    return nearest
