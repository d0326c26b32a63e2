"""The inputs of a Session and a Window as typed values.

The plan has checked their meaning. Types are checked again, and so are names, which become parts of commands
and paths: inputs may come from a state that was edited by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec

from symphony import paths
from symphony.content import code_files
from symphony.errors import SymphonyError, UserError
from symphony.supervision import Declaration, Wait
from symphony_dynamic.provider import WrongInput
from symphony_tmux import names
from symphony_tmux.processes.declared_code import CHANGED, DeclaredCode

_Name = Annotated[str, msgspec.Meta(pattern=rf"\A{names.NAME.pattern}\Z")]
_Path = Annotated[str, msgspec.Meta(pattern=rf"\A{names.NAME.pattern}(/{names.NAME.pattern})?\Z")]
_Owner = Annotated[str, msgspec.Meta(pattern=rf"\A{names.OWNER.pattern}\Z")]
_Variable = Annotated[str, msgspec.Meta(pattern=rf"\A{names.VARIABLE.pattern}\Z")]
_Grace = Annotated[float, msgspec.Meta(ge=0, le=3600)]  # the setting allows 600
_Policy = Annotated[str, msgspec.Meta(pattern=r"\A(Never|OnFailure|Always)\Z")]


class SessionInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of an experiment.

    ports:       the planned port of each service, which may be leased to another experiment by now.
    fixed_ports: the services whose port must not change.
    port_range:  the first and the last port to choose from.
    secrets, configs: the files to copy into the folder of the experiment.
    supervision: the start order, the probes and the end conditions, with the planned ports.
    """

    name: _Name
    owner: _Owner
    server: _Name = paths.DEFAULT_SERVER
    processes: tuple[_Path, ...] = ()
    services: dict[_Variable, str] = {}
    ports: dict[str, int] = {}
    fixed_ports: tuple[str, ...] = ()
    port_range: tuple[int, int] | None = None
    secrets: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    grace: _Grace = 5.0
    supervision: Declaration | None = None


class ProcessInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of a process that a launch file starts.

    secret_digests: the digests of the values of secret_env. code, folder: the entries of `code=` and the
    folder of the project.
    """

    owner: _Owner
    path: _Path
    argv: tuple[str, ...] = ()
    script: tuple[str, ...] = ()
    preamble: tuple[str, ...] = ()
    cwd: str = ""
    env: dict[_Variable, str] = {}
    secret_env: dict[_Variable, str] = {}
    secret_digests: dict[str, str] = {}
    services: dict[_Variable, str] = {}
    inherit: tuple[str, ...] = ()
    restart_policy: _Policy = "Never"
    code: tuple[str, ...] = ()
    folder: str = ""

    @property
    def declared_code(self) -> DeclaredCode | None:
        digest = self.services.get(code_files.VARIABLE, "")
        return DeclaredCode(texts=self.code, folder=self.folder, digest=digest) if self.code else None

    def unchanged_code(self) -> DeclaredCode | None:
        """Return the declared code; raise UserError if it has changed since the plan."""
        code = self.declared_code
        if code is not None and code.has_changed():
            what = f"{CHANGED}: {', '.join(code.texts)}"
            raise UserError(what, where=self.path, remedy="Run `symphony up` again")
        return code


class WindowInputs(ProcessInputs, frozen=True, kw_only=True):
    """The declaration of a process in a tmux window."""

    session: _Name
    server: _Name = paths.DEFAULT_SERVER
    waits_for: tuple[Wait, ...] = ()
    grace: _Grace = 5.0


# The inputs that are also outputs; secret_digests stands for secret_env.
WINDOW_INPUTS = {*WindowInputs.__struct_fields__} - {"secret_env", "code", "folder"}
Inputs = TypeVar("Inputs", bound=msgspec.Struct)


def session_inputs(props: Mapping[str, Any]) -> SessionInputs:
    """Return the typed inputs of a Session; raise WrongInput."""
    # Pulumi converts integers to floats.
    port_range = [int(port) for port in props.get("port_range") or ()] or None
    converted_inputs = {
        "ports": ports_of(props),
        "port_range": port_range,
        "supervision": supervision_of(props),
    }
    return convert({**props, **converted_inputs}, SessionInputs)


def refuse_invalid_names(props: Mapping[str, Any]) -> None:
    """Raise SymphonyError if the state has a name that inputs cannot have."""
    validators = {"name": names.is_name, "session": names.is_name, "server": names.is_name}
    validators |= {"path": names.is_path, "owner": names.is_owner}
    for field in validators.keys() & props.keys():
        name: object = props[field]
        if not isinstance(name, str) or not validators[field](name):
            raise SymphonyError(
                f"the state was damaged or changed by hand: its {field} is {name!r}",
                remedy="Restore the stack's state file from the copy beside it (.bak)",
            )


def ports_of(props: Mapping[str, Any]) -> dict[str, int]:
    """Return the port of each service, as integers: Pulumi converts them to floats."""
    return msgspec.convert(props.get("ports") or {}, dict[str, int], strict=False)


def supervision_of(props: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the supervision in the inputs or outputs of a Session, with its integers.

    Raises:
        WrongInput: It is not a valid declaration.
    """
    if not (supervision := props.get("supervision")):
        return None
    try:
        return msgspec.to_builtins(msgspec.convert(supervision, Declaration, strict=False))
    except msgspec.ValidationError as error:
        raise WrongInput("supervision", str(error)) from error


def convert(props: Mapping[str, Any], kind: type[Inputs]) -> Inputs:
    """Return the inputs of a resource as a typed value.

    Raises:
        WrongInput: An input has a wrong type or an invalid name.
    """
    try:
        return msgspec.convert({name: value for name, value in props.items() if value is not None}, kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at ")
        field = re.search(r"\$\.(\w+)", place) or re.search(r"field `(\w+)`", text)
        if "regex" in text:
            text = "not a valid name: use letters, digits, - and _"
        raise WrongInput(field[1] if field else "", text) from error


window_inputs = partial(convert, kind=WindowInputs)
