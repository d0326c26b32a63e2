"""Reads the values that a launch needs, once: secret files, Outputs, and settings that are secret."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import pulumi
from pulumi.runtime import config
from pulumi.runtime.sync_await import _sync_await  # pyright: ignore[reportPrivateUsage]

from symphony import files
from symphony.plan.problems import Problem
from symphony.plan.rules.commands import MAX_TEXT
from symphony.spec.convert import WrongTypeError, text
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.inputs import Secret
from symphony.spec.process import ProcessSpec

AnySpec = TypeVar("AnySpec", ProcessSpec, ProcessGroupSpec, ExperimentSpec)
# The placeholder in a preview of an Output that only the run creates.
UNKNOWN = "known-after-up"
# Settings whose Outputs become texts of the plan.
_TAKE_OUTPUTS = ("image", "command", "args")


def read(spec: ExperimentSpec) -> tuple[ExperimentSpec, tuple[Problem, ...]]:
    """Return the spec with texts for the Outputs in it and a Secret for each secret value, and problems.

    An Output in env, and a value of a secret setting there, moves to secret_env.
    """
    known = secret_settings()
    resolved = spec.with_owners(lambda owner: _resolved(_hidden(owner, known)))
    return resolved, tuple(_secrets_in_plain_sight(spec))


def _hidden(owner: AnySpec, known: frozenset[str]) -> AnySpec:
    moved = {
        name: value
        for name, value in owner.env.items()
        if isinstance(cast("Any", value), pulumi.Output) or value in known
    }
    if not moved and not owner.secret_env:
        return owner
    # A name in both stays in both, for the plan to refuse.
    moved = {name: value for name, value in moved.items() if name not in owner.secret_env}
    return dataclasses.replace(
        owner,
        env={name: value for name, value in owner.env.items() if name not in moved},
        secret_env={name: _secret(value, known) for name, value in {**owner.secret_env, **moved}.items()},
        places={**owner.places, **{f"secret_env {name}": owner.at(f"env {name}") for name in moved}},
    )


def _resolved(owner: AnySpec) -> AnySpec:
    """Return the owner with texts for the Outputs of its image, command and args."""
    values = {setting: getattr(owner, setting, None) for setting in _TAKE_OUTPUTS}
    changes = {setting: _texts_of(value) for setting, value in values.items() if _outputs(value)}
    return dataclasses.replace(owner, **changes) if changes else owner


def _outputs(value: Any) -> list[pulumi.Output[Any]]:
    values = cast("tuple[Any, ...]", value if isinstance(value, tuple) else (value,))
    return [cast("pulumi.Output[Any]", each) for each in values if isinstance(each, pulumi.Output)]


def _texts_of(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_texts_of, cast("tuple[Any, ...]", value)))
    if not isinstance(value, pulumi.Output):
        return value
    awaited = _await(cast("pulumi.Output[Any]", value))
    return text(awaited.value, "an Output") if awaited.is_known else UNKNOWN


def _secrets_in_plain_sight(spec: ExperimentSpec) -> Iterator[Problem]:
    for name, owner in spec.owners():
        for setting in _TAKE_OUTPUTS:
            if any(_await(output).is_secret for output in _outputs(getattr(owner, setting, None))):
                yield Problem(
                    f"{name} has a secret Output in {setting}, which the state and the plan show",
                    "give it in secret_env, and have the program read that variable",
                    (owner.at(setting),),
                )


class _Awaited(NamedTuple):
    value: Any
    is_known: bool
    is_secret: bool


def _await(output: pulumi.Output[Any]) -> _Awaited:
    async def awaited() -> _Awaited:
        return _Awaited(await output.future(), await output.is_known(), await output.is_secret())

    return _sync_await(awaited())


def _secret(value: Any, known: frozenset[str]) -> Secret:
    """Return the secret of a file, of an Output or of a secret setting."""
    if isinstance(value, pulumi.Output):
        return _of_output(cast("pulumi.Output[Any]", value))
    if isinstance(value, Secret):
        return value
    return _checked(value) if value in known else _of_file(value)


def _of_output(output: pulumi.Output[Any]) -> Secret:
    if output._data.get_loop() is not asyncio.get_event_loop():  # pyright: ignore[reportPrivateUsage]
        return Secret(trouble="its Output was made outside of the Pulumi program")
    awaited = _await(output)
    if not awaited.is_known:
        return Secret(is_known=False)
    try:
        return _checked(text(awaited.value, "an Output"))
    except WrongTypeError:
        return Secret(trouble="its Output is not text")


def _of_file(file: str) -> Secret:
    # A text that does not look like a path may be the value itself, by mistake.
    source = file if file.startswith(("~", "/", "./", "../")) else ""
    try:
        text = files.read_source(Path(file).expanduser()).decode()
    except UnicodeDecodeError:
        return Secret(trouble="its file is not UTF-8 text", source=source)
    except (OSError, RuntimeError, ValueError) as error:
        why = (getattr(error, "strerror", None) or "it is not a path").lower()
        return Secret(trouble=f"its file cannot be read: {why}", source=source)
    return _checked(text.rstrip("\r\n"), file)


def _checked(value: str, source: str = "") -> Secret:
    """Return the secret, with its trouble where no process can get the value."""
    size = len(value.encode("utf-8", "surrogatepass"))
    trouble = ""
    if not value:
        trouble = "its value is empty"
    elif "\0" in value:
        trouble = "its value contains a NUL byte"
    elif size > MAX_TEXT:
        trouble = f"its value has {size} bytes, more than the {MAX_TEXT} that a program can be given"
    elif any("\ud800" <= character <= "\udfff" for character in value):
        trouble = "its value is not valid Unicode"
    return Secret("" if trouble else value, source=source, trouble=trouble)


def secret_settings() -> frozenset[str]:
    """Return the values of the secret settings of the stack, which a program may have read as plain text."""
    settings = config.CONFIG.get()
    return frozenset(str(value) for key, value in settings.items() if value and config.is_config_secret(key))
