"""The stack settings of the Slurm backend."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

from msgspec import Meta

from symphony import paths
from symphony.backends.expand import Context
from symphony.backends.stack_settings import StackSettings, setting
from symphony_slurm.folder import Folder, folder_of

# Options that submit several jobs or none, or that wait for the end of the job.
_UNUSABLE = frozenset({"--array", "--help", "--test-only", "--usage", "--version", "--wait", "--wrap"})
_Nodes = Annotated[int, Meta(ge=1, le=10000)]


@dataclass(frozen=True, kw_only=True)
class Settings(StackSettings):
    """The settings of a stack on Slurm."""

    partition: str | None = setting(str, None, "The partition of the job.", otherwise="the cluster's default")
    account: str | None = setting(
        str, None, "The account that the job is charged to.", otherwise="your default account"
    )
    qos: str | None = setting(
        str, None, "The quality of service of the job.", otherwise="the account's default"
    )
    time: str | None = setting(
        str, None, "The time limit of the job, in Slurm's notation: 30, 12:00:00, 2-00:00:00."
    )
    constraint: str | None = setting(str, None, "Features that the nodes must have.")
    nodes: int = setting(
        _Nodes,
        1,
        "The number of nodes of the job; with several partitions, the most in each.",
        takes="1 or more",
    )
    sbatch_options: tuple[str, ...] = setting(
        tuple[str, ...], (), "Further options of sbatch, such as --exclusive."
    )
    shared_folder: str | None = setting(
        str,
        None,
        "A folder that every node can access, for the files of experiments.",
        otherwise="~/.local/state/symphony/slurm",
    )
    slurm_conf: str | None = setting(str, None, "The slurm.conf of the cluster.", otherwise="$SLURM_CONF")

    def faults(self) -> Iterator[tuple[str, str, str]]:
        for option in self.sbatch_options:
            if not option.startswith("--"):
                yield (
                    "sbatch_options",
                    f"has {option}, which is not an option",
                    "write --NAME or --NAME=VALUE",
                )
            elif option.partition("=")[0] in _UNUSABLE:
                yield "sbatch_options", f"has {option}, which an experiment cannot have", "remove it"
        if self.shared_folder and (why := _unusable(self.shared_folder)):
            remedy = "choose a folder that every node can access and you can write to"
            yield "shared_folder", f"is {self.shared_folder}, but {why}", remedy
        if self.slurm_conf and not os.access(self.slurm_conf, os.R_OK):
            remedy = "name the slurm.conf of your cluster, or remove the setting"
            yield "slurm_conf", f"is {self.slurm_conf}, which is missing or not readable", remedy


def _unusable(shared: str) -> str:
    """Return why no experiment can have its folder in a shared folder; empty if one can."""
    try:
        place = Path(shared).expanduser().absolute()
    except RuntimeError:
        return "there is no such user"
    # The first `up` makes the folder.
    existing = next(folder for folder in (place, *place.parents) if os.access(folder, os.F_OK))
    is_usable = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    return "" if is_usable else f"you cannot write to {existing}"


def settings_of(context: Context) -> Settings:
    """Return the settings of the running program."""
    return cast("Settings", context.settings)


def folder_for(context: Context) -> Folder:
    """Return the folder of the running program's experiment, which every node can access."""
    shared = settings_of(context).shared_folder
    place = Path(shared).expanduser().absolute() if shared else paths.home() / "slurm"
    return folder_of(place, context.physical_name, context.owner)
