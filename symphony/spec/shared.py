"""What an experiment, a process group and a process have in common: who declared it, and shared settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Protocol, TypedDict

from symphony.spec import setting, types
from symphony.spec.inputs.image import ImageSpec
from symphony.spec.inputs.secret import Secret
from symphony.spec.location import NOWHERE, Location, place_of
from symphony.spec.mounts import Mount
from symphony.spec.pod import Place, PodSettings

PullPolicy = Literal["Always", "IfNotPresent", "Never"]
Text = str | os.PathLike[str]
Texts = Text | Sequence[Text | float]


class Output(Protocol):
    """An Output of Pulumi's, of which this room knows nothing more."""

    @property
    def apply(self) -> Callable[..., Any]: ...


class Image(Protocol):
    """An image that is built; of its builder this room knows nothing more."""

    @property
    def spec(self) -> ImageSpec: ...


Value = Text | float
Variables = Mapping[str, Value]
EnvValue = Value | Output
Env = Mapping[str, EnvValue]
SecretEnv = Mapping[str, Text | Output]


class SharedOptions(TypedDict, total=False):
    """Keywords of an experiment, a process group and a process."""

    preamble_cmds: Texts | None
    start_dir: Text | None
    code: Texts | None
    env: Env | None
    secret_env: SecretEnv | None
    image: str | Image | None
    container_image: str | Image | None


@dataclass(frozen=True)
class Declared:
    """What was declared, and where: places maps a setting to the line that made it; unknown are keywords that
    are no setting.
    """

    name: str = field(metadata=setting.metadata(types.TEXT))
    _: KW_ONLY
    unknown: tuple[str, ...] = field(default=(), metadata=setting.metadata(types.TEXTS))
    where: Location = field(default=NOWHERE, compare=False)
    places: Mapping[str, Location] = field(default_factory=dict[str, Location], compare=False)

    def at(self, setting: str) -> Location:
        """The line that made a setting (or one part of it: `env PATH`), else that of the declaration."""
        return place_of(setting, self.places, self.where)


@dataclass(frozen=True, kw_only=True)
class SharedSettings:
    """What is said of an experiment or a group holds for each of its processes: lists are joined, the
    experiment's first; of mappings, and of all else, the value nearest to the process wins.
    """

    preamble_cmds: tuple[str, ...] = setting.setting(types.TEXTS, keyword=True, varies=True)
    start_dir: str | None = setting.setting(types.PATH, keyword=True, varies=True)
    code: tuple[str, ...] = setting.setting(types.TEXTS, keyword=True)
    env: Mapping[str, str] = setting.setting(types.VARIABLES, keyword=True, calls=("set_env", "set_envs"))
    secret_env: Mapping[str, Secret] = setting.setting(types.SECRETS, keyword=True, varies=True)
    image: str | ImageSpec | None = setting.setting(
        types.text_or(ImageSpec, "text, or Image(...)"),
        keyword=True,
        aliases=("container_image",),
        varies=True,
        stand_in="image",
    )


@dataclass(frozen=True, kw_only=True)
class MemberSettings(SharedSettings):
    """Settings of a process, or of a group for each of its processes."""

    image_pull_policy: PullPolicy | None = setting.setting(
        types.one_of(PullPolicy), calls=("image_pull_policy",), varies=True
    )
    mounts: tuple[Mount, ...] = setting.setting(types.parts(Mount), varies=True)
    place: Place = setting.setting(types.part(Place), calls=("place",), varies=True)
    pod: PodSettings = setting.setting(types.part(PodSettings))
