"""Reads secret values at launch: secret files, Outputs, and secret settings of the stack."""

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import pulumi
from pulumi.runtime import config
from pulumi.runtime.sync_await import _sync_await  # pyright: ignore[reportPrivateUsage]

from symphony import files, run_request
from symphony.plan.problems import Problem
from symphony.plan.rules import MAX_TEXT
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.process import ProcessSpec
from symphony.spec.setting import WrongTypeError, text
from symphony.spec.shared import Secret

AnySpec = TypeVar("AnySpec", ProcessSpec, ProcessGroupSpec, ExperimentSpec)
# The placeholder, in a preview, for an Output that is known only after the run.
UNKNOWN = "known-after-up"
# Settings whose Outputs become plain text in the plan.
_TAKE_OUTPUTS = ("image", "command", "args")


def resolve_values(spec: ExperimentSpec) -> tuple[ExperimentSpec, tuple[Problem, ...]]:
    """Return the spec with text in place of Outputs and a Secret for each secret value, and problems.

    Outputs and secret settings in env move to secret_env.
    """
    stack_secrets = secret_settings()
    resolved = spec.with_owners(lambda owner: _with_texts(_with_secrets(owner, stack_secrets)))
    return resolved, (*_exposed_secrets(spec), *_unknown_outputs(resolved))


def _with_secrets(owner: AnySpec, stack_secrets: frozenset[str]) -> AnySpec:
    secret_values = {
        name: value
        for name, value in owner.env.items()
        if isinstance(cast("Any", value), pulumi.Output) or value in stack_secrets
    }
    if not secret_values and not owner.secret_env:
        return owner
    # A name in both stays in both, so that the plan refuses it.
    secret_values = {name: value for name, value in secret_values.items() if name not in owner.secret_env}
    return dataclasses.replace(
        owner,
        env={name: value for name, value in owner.env.items() if name not in secret_values},
        secret_env={
            name: _secret(value, stack_secrets)
            for name, value in {**owner.secret_env, **secret_values}.items()
        },
        lines={**owner.lines, **{f"secret_env {name}": owner.at(f"env {name}") for name in secret_values}},
    )


def _with_texts(owner: AnySpec) -> AnySpec:
    """Return the owner with text in place of the Outputs in its image, command and args."""
    values = {setting: getattr(owner, setting, None) for setting in _TAKE_OUTPUTS}
    changes = {setting: _texts_of(value) for setting, value in values.items() if _outputs_in(value)}
    return dataclasses.replace(owner, **changes) if changes else owner


def _outputs_in(value: Any) -> list[pulumi.Output[Any]]:
    values = cast("tuple[Any, ...]", value if isinstance(value, tuple) else (value,))
    return [cast("pulumi.Output[Any]", output) for output in values if isinstance(output, pulumi.Output)]


def _texts_of(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_texts_of, cast("tuple[Any, ...]", value)))
    if not isinstance(value, pulumi.Output):
        return value
    resolved = _await(cast("pulumi.Output[Any]", value))
    return text(resolved.value, "an Output") if resolved.is_known else UNKNOWN


def _exposed_secrets(spec: ExperimentSpec) -> Iterator[Problem]:
    for name, owner in spec.owners():
        for setting in _TAKE_OUTPUTS:
            if any(_await(output).is_secret for output in _outputs_in(getattr(owner, setting, None))):
                yield Problem(
                    f"{name} has a secret Output in {setting}, which the plan and the state show as text",
                    "pass it in secret_env, and read that variable in the process",
                    (owner.at(setting),),
                )


def _unknown_outputs(resolved: ExperimentSpec) -> Iterator[Problem]:
    """Yield a problem for each unknown Output in a run that changes things: its resource is not a target."""
    if pulumi.runtime.is_dry_run():
        return
    restarted = run_request.current().restart
    for name, owner in resolved.owners():
        if restarted is not None and isinstance(owner, ProcessSpec) and name not in restarted:
            continue
        unknown = [setting for setting in _TAKE_OUTPUTS if _is_unknown(getattr(owner, setting, None))]
        secrets = owner.secret_env.items()
        unknown += [f"secret_env {variable}" for variable, secret in secrets if not secret.is_known]
        for setting in unknown:
            yield Problem(
                f"{name} has an Output in {setting} of a resource that this run does not create",
                "run `symphony up`, which creates it",
                (owner.at(setting),),
            )


def _is_unknown(value: Any) -> bool:
    return UNKNOWN in value if isinstance(value, tuple) else value == UNKNOWN


class _Resolved(NamedTuple):
    value: Any
    is_known: bool
    is_secret: bool


def _await(output: pulumi.Output[Any]) -> _Resolved:
    async def resolved() -> _Resolved:
        return _Resolved(await output.future(), await output.is_known(), await output.is_secret())

    return _sync_await(resolved())


def _secret(value: Any, stack_secrets: frozenset[str]) -> Secret:
    if isinstance(value, pulumi.Output):
        return _secret_of_output(cast("pulumi.Output[Any]", value))
    if isinstance(value, Secret):
        return value
    return _secret_of_text(value) if value in stack_secrets else _secret_of_file(value)


def _secret_of_output(output: pulumi.Output[Any]) -> Secret:
    if output._data.get_loop() is not asyncio.get_event_loop():  # pyright: ignore[reportPrivateUsage]
        return Secret(trouble="the Output was created outside of the Pulumi program")
    resolved = _await(output)
    if not resolved.is_known:
        return Secret(is_known=False)
    try:
        return _secret_of_text(text(resolved.value, "an Output"))
    except WrongTypeError:
        return Secret(trouble="the Output is not text")


def _secret_of_file(file: str) -> Secret:
    # Text that does not look like a path may be the secret itself, by mistake, and must not be shown.
    source = file if file.startswith(("~", "/", "./", "../")) else ""
    try:
        text = files.read_source(Path(file).expanduser()).decode()
    except UnicodeDecodeError:
        return Secret(trouble="the file is not UTF-8 text", source=source)
    except (OSError, RuntimeError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or "not a path").lower()
        return Secret(trouble=f"the file cannot be read: {reason}", source=source)
    return _secret_of_text(text.rstrip("\r\n"), file)


def _secret_of_text(value: str, source: str = "") -> Secret:
    """Return the Secret for a value, or its trouble if the value cannot be an environment variable."""
    size = len(value.encode("utf-8", "surrogatepass"))
    trouble = ""
    if not value:
        trouble = "the value is empty"
    elif "\0" in value:
        trouble = "the value contains a NUL byte"
    elif size > MAX_TEXT:
        trouble = f"the value has {size} bytes, more than the {MAX_TEXT} that Linux allows"
    elif any("\ud800" <= character <= "\udfff" for character in value):
        trouble = "the value is not valid Unicode"
    return Secret("" if trouble else value, source=source, trouble=trouble)


def secret_settings() -> frozenset[str]:
    """Return the stack's secret settings, which a program may have read as plain text."""
    settings = config.CONFIG.get()
    return frozenset(str(value) for key, value in settings.items() if value and config.is_config_secret(key))
