"""A container image as the user declared it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from symphony.spec import setting, types
from symphony.spec.location import NOWHERE, Location


@dataclass(frozen=True)
class ImageSpec:
    """An image to be built.

    dockerfile_text: replaces the file that dockerfile names.
    include: the files that are sent, all if empty.
    secrets: id -> file.
    """

    name: str = field(metadata=setting.metadata(types.TEXT))
    _: KW_ONLY
    repository: str | None = setting.setting(types.OPTIONAL_TEXT)
    context: str = field(default=".", metadata=setting.metadata(types.TEXT))
    dockerfile: str = field(default="Dockerfile", metadata=setting.metadata(types.TEXT))
    dockerfile_text: str = setting.setting(types.TEXT)
    build_args: Mapping[str, str] = setting.setting(types.VARIABLES)
    secrets: Mapping[str, str] = setting.setting(types.VARIABLES)
    target: str | None = setting.setting(types.OPTIONAL_TEXT)
    platform: str | None = setting.setting(types.OPTIONAL_TEXT)
    include: tuple[str, ...] = setting.setting(types.TEXTS)
    allow: tuple[str, ...] = setting.setting(types.TEXTS)
    retain_on_delete: bool = field(default=True, metadata=setting.metadata(types.FLAG))
    where: Location = field(default=NOWHERE, compare=False)

    def __hash__(self) -> int:
        return hash((self.name, self.context, self.dockerfile))
