"""A container image as the user declared it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from symphony.spec.convert import FLAG, OPTIONAL_TEXT, strict_text, texts, variables
from symphony.spec.location import NOWHERE, Location
from symphony.spec.setting import Checked, required, setting


@dataclass(frozen=True)
class ImageSpec(Checked):
    """An image to be built.

    dockerfile_text: replaces the file that dockerfile names.
    include: the files that are sent, all if empty.
    secrets: id -> file.
    """

    name: str = required(strict_text)
    _: KW_ONLY
    repository: str | None = setting(OPTIONAL_TEXT)
    context: str = setting(strict_text, ".")
    dockerfile: str = setting(strict_text, "Dockerfile")
    dockerfile_text: str = setting(strict_text, "")
    build_args: Mapping[str, str] = setting(variables, {})
    secrets: Mapping[str, str] = setting(variables, {})
    target: str | None = setting(OPTIONAL_TEXT)
    platform: str | None = setting(OPTIONAL_TEXT)
    include: tuple[str, ...] = setting(texts, ())
    allow: tuple[str, ...] = setting(texts, ())
    retain_on_delete: bool = setting(FLAG, True)
    where: Location = field(default=NOWHERE, compare=False)

    def __hash__(self) -> int:
        return hash((self.name, self.context, self.dockerfile))
