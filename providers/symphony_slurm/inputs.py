"""The inputs of an Allocation and a Step as typed values, and what a change of them restarts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from symphony.content import code_files
from symphony.errors import UserError
from symphony_slurm.folder import Experiment, Wait
from symphony_tmux import names
from symphony_tmux.processes.declared_code import DeclaredCode

_Path = Annotated[str, msgspec.Meta(pattern=rf"\A{names.NAME.pattern}(/{names.NAME.pattern})?\Z")]
_Owner = Annotated[str, msgspec.Meta(pattern=rf"\A{names.OWNER.pattern}\Z")]
_Variable = Annotated[str, msgspec.Meta(pattern=rf"\A{names.VARIABLE.pattern}\Z")]
_Folder = Annotated[str, msgspec.Meta(pattern=r"\A/")]
# A change of these starts a step again; `allocation` stands for what the job asks for.
LAUNCHED = (
    *("argv", "script", "preamble", "cwd", "env", "secret_digests", "inherit", "restart_policy"),
    *("services", "uses", "share", "allocation"),
)
REPLACED = ("folder", "owner", "path")
# What `check` adds to the inputs, so that a plain `pulumi preview` says why.
REASON = "repair"
Inputs = TypeVar("Inputs", bound=msgspec.Struct)


class AllocationInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The job of one experiment.

    declared: the Experiment as JSON, of which Pulumi changes no number.
    options: those of sbatch; another allocation is needed where they change.
    secrets, configs: files that are copied into the folder.
    """

    folder: _Folder
    declared: str
    options: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()

    @property
    def experiment(self) -> Experiment:
        return msgspec.json.decode(self.declared, type=Experiment)


class StepInputs(msgspec.Struct, frozen=True, kw_only=True):
    """One process as the program declares it.

    uses: the services that it deals with. share: what it has of the allocation, in words.
    code, project: the texts of `code=` and the folder of the project.
    """

    folder: _Folder
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
    uses: tuple[str, ...] = ()
    inherit: tuple[str, ...] = ()
    restart_policy: str = "Never"
    waits_for: tuple[Wait, ...] = ()
    share: str = ""
    allocation: str = ""
    code: tuple[str, ...] = ()
    project: str = ""

    @property
    def declared_code(self) -> DeclaredCode | None:
        digest = self.services.get(code_files.VARIABLE, "")
        return DeclaredCode(texts=self.code, folder=self.project, digest=digest) if self.code else None


class WrongInput(UserError):
    """An input of a wrong type, or a name with characters that names do not have."""


def allocation_inputs(props: Mapping[str, Any]) -> AllocationInputs:
    """Return the inputs of an Allocation. UserError: the first that is wrong."""
    return _converted(props, AllocationInputs)


def step_inputs(props: Mapping[str, Any]) -> StepInputs:
    """Return the inputs of a Step. UserError: the first that is wrong."""
    return _converted(props, StepInputs)


def kept(props: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the inputs that are part of the outputs: all but the values of secrets."""
    fields = {*kind.__struct_fields__} - {"secret_env"}
    return {name: props[name] for name in fields if props.get(name) is not None}


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the changed inputs for which a process is started again."""
    return [name for name in LAUNCHED if (old.get(name) or None) != (new.get(name) or None)]


def digest(inputs: Mapping[str, Any]) -> str:
    """Return what tells this start of a process from another."""
    facts = {name: inputs.get(name) or None for name in LAUNCHED}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def fingerprint(inputs: Mapping[str, Any]) -> str:
    """Return the digest with the folder of the experiment: elsewhere it is another process."""
    return f"{inputs['folder']}/{digest(inputs)}"


def _converted(props: Mapping[str, Any], kind: type[Inputs]) -> Inputs:
    try:
        return msgspec.convert({name: value for name, value in props.items() if value is not None}, kind)
    except msgspec.ValidationError as error:
        raise WrongInput(str(error)) from error
