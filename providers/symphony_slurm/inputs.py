"""The inputs of an Allocation and a Step as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import msgspec

from symphony_slurm.folder import Experiment
from symphony_tmux.resource import changes
from symphony_tmux.resource.inputs import ProcessInputs, convert

_Place = Annotated[str, msgspec.Meta(pattern=r"\A/")]
# If one of these changes, the step starts again; `allocation` is the digest of what the job requests.
LAUNCHED = (*changes.LAUNCHED, "uses", "share", "allocation")
# If one of these changes, the step is replaced.
REPLACED = ("place", "owner", "path")


class AllocationInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The job of one experiment.

    place: the folder of the experiment on the shared disk.
    declared: the Experiment as JSON: in a dict Pulumi would turn its integers into floats.
    options: those of sbatch; if they change, another allocation is needed.
    secrets, configs: files that are copied into the folder.
    """

    place: _Place
    declared: str
    options: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()

    @property
    def experiment(self) -> Experiment:
        return msgspec.json.decode(self.declared, type=Experiment)


class StepInputs(ProcessInputs, frozen=True, kw_only=True):
    """One process as the program declares it.

    uses: the services that it binds, connects to or exposes. share: its part of the allocation, in words.
    """

    place: _Place
    uses: tuple[str, ...] = ()
    share: str = ""
    allocation: str = ""


allocation_inputs = partial(convert, kind=AllocationInputs)
step_inputs = partial(convert, kind=StepInputs)


def repeated_inputs(props: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the inputs that are repeated in the outputs: all but the values of secrets."""
    fields = {*kind.__struct_fields__} - {"secret_env"}
    return {name: props[name] for name in fields if props.get(name) is not None}


def fingerprint(inputs: Mapping[str, Any]) -> str:
    """Return the folder and the digest of the inputs: in another folder it is another process."""
    return f"{inputs['place']}/{changes.digest(inputs, LAUNCHED)}"
