"""Reads the values that nobody is to see, once, at launch: files, Outputs, and settings that are secret."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import pulumi
from pulumi.runtime import config
from pulumi.runtime.sync_await import _sync_await  # pyright: ignore[reportPrivateUsage]

from symphony import files
from symphony.plan.rules.commands import MAX_TEXT
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.inputs.secret import Secret
from symphony.spec.process import ProcessSpec
from symphony.spec.types import read_text

AnySpec = TypeVar("AnySpec", ProcessSpec, ProcessGroupSpec, ExperimentSpec)


def read(spec: ExperimentSpec) -> ExperimentSpec:
    """The spec with a Secret for each of them, all under secret_env, also what env was given of that kind."""
    known = secret_settings()
    return dataclasses.replace(
        _read(spec, known),
        processes=tuple(_read(each, known) for each in spec.processes),
        groups=tuple(
            dataclasses.replace(
                _read(group, known), processes=tuple(_read(each, known) for each in group.processes)
            )
            for group in spec.groups
        ),
    )


def _read(owner: AnySpec, known: Collection[str]) -> AnySpec:
    env, hidden = cast("tuple[Any, Any]", (owner.env, owner.secret_env))
    if not isinstance(env, Mapping) or not isinstance(hidden, Mapping):
        return owner
    declared, hidden = cast("Mapping[Any, Any]", env), cast("Mapping[Any, Any]", hidden)
    moved = {name: value for name, value in declared.items() if _is_hidden(value, known)}
    if not moved and not hidden:
        return owner
    # A name in both stays in both, for the plan to refuse.
    moved = {name: value for name, value in moved.items() if name not in hidden}
    return dataclasses.replace(
        owner,
        env={name: value for name, value in declared.items() if name not in moved},
        secret_env={name: _secret(value, known) for name, value in {**hidden, **moved}.items()},
        places={**owner.places, **{f"secret_env {name}": owner.at(f"env {name}") for name in moved}},
    )


def _is_hidden(value: object, known: Collection[str]) -> bool:
    return isinstance(value, pulumi.Output) or (isinstance(value, str) and value in known)


def _secret(value: Any, known: Collection[str]) -> Any:
    """The value that a program gives; what is of a wrong type stays, for the plan to refuse."""
    if isinstance(value, pulumi.Output):
        return _of_output(cast("pulumi.Output[Any]", value))
    if not isinstance(value, str):
        return value
    return _checked(value) if value in known else _of_file(value)


def _of_output(output: pulumi.Output[Any]) -> Secret:
    async def awaited() -> tuple[Any, bool]:
        return await output.future(), await output.is_known()

    if output._data.get_loop() is not asyncio.get_event_loop():  # pyright: ignore[reportPrivateUsage]
        return Secret(trouble="its Output was made outside of the Pulumi program")
    value, is_known = _sync_await(awaited())
    if not is_known:
        return Secret(is_known=False)
    text = read_text(value)
    return _checked(text) if isinstance(text, str) else Secret(trouble="its Output is not text")


def _of_file(file: str) -> Secret:
    # What does not look like a path may be the value itself, by mistake.
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
    """A value that a program can be given."""
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
    """The values of the stack's secret settings, which a program may have read as plain text."""
    settings = config.CONFIG.get()
    return frozenset(str(value) for key, value in settings.items() if value and config.is_config_secret(key))
