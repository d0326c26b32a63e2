"""A process group as the user declared it: processes that share a fate and a machine."""

from __future__ import annotations

from dataclasses import dataclass

from symphony.spec import setting, types
from symphony.spec.process import ProcessSpec
from symphony.spec.shared import Declared, MemberSettings, SharedOptions


class GroupOptions(SharedOptions, total=False):
    """Keywords of a process group."""


@dataclass(frozen=True)
class ProcessGroupSpec(MemberSettings, Declared):
    """Its processes, and settings that hold for all of them."""

    processes: tuple[ProcessSpec, ...] = setting.setting(types.parts(ProcessSpec))
