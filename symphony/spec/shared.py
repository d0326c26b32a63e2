"""The settings that an experiment, a process group and a process share, and the types of their keywords."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Protocol, TypedDict

from symphony.spec.convert import (
    OPTIONAL_TEXT,
    Output,
    all_of,
    builtin,
    duration,
    environment,
    instance_of,
    mapping_of,
    of_type,
    strict_text,
    texts,
    wrong_type,
)
from symphony.spec.inputs import ImageSpec, Secret
from symphony.spec.location import NOWHERE, Location, line_of
from symphony.spec.order import Dependencies, Dependency, dependencies
from symphony.spec.pod import Mount, Place, PodSettings, RestartPolicy, Toleration
from symphony.spec.setting import required, setting

PullPolicy = Literal["Always", "IfNotPresent", "Never"]
Text = str | os.PathLike[str]
Value = Text | float
Texts = Text | Sequence[Value]
Arguments = Text | Output | Sequence[Value | Output]
Variables = Mapping[str, Value]
EnvValue = Value | Output
Env = Mapping[str, EnvValue]
# Seconds, or text such as "30m".
Duration = float | str
SecretEnv = Mapping[str, Text | Output]


class Image(Protocol):
    """An image that symphony builds."""

    @property
    def spec(self) -> ImageSpec: ...


class SharedOptions(TypedDict, total=False):
    """Keyword arguments of an experiment, a process group and a process."""

    preamble_cmds: Texts | None
    start_dir: Text | None
    code: Texts | None
    env: Env | None
    secret_env: SecretEnv | None
    image: str | Image | Output | None
    termination_delay: Duration | None


class MemberOptions(SharedOptions, total=False):
    """Keyword arguments of a process group and a process."""

    image_pull_policy: PullPolicy | None
    place: Place | None
    node_selector: Variables | None
    tolerations: Toleration | Sequence[Toleration] | None
    restart_policy: RestartPolicy | None
    depends_on: Dependencies | None
    labels: Variables | None
    pod_yml: Mapping[str, Any] | None


@dataclass(frozen=True)
class Declared:
    """A named declaration, its source line, and the source line of each of its settings."""

    name: str = required(strict_text)
    _: KW_ONLY
    where: Location = field(default=NOWHERE, compare=False)
    lines: Mapping[str, Location] = field(default_factory=dict[str, Location], compare=False)

    def at(self, setting: str) -> Location:
        """Return the line that set a setting or a part of it (`env PATH`), else the declaration's line."""
        return line_of(setting, self.lines, self.where)


def _secret(value: Any, setting: str) -> Any:
    """Check a value of secret_env: a file's path, an Output, or the Secret read from either at launch."""
    secret = value if isinstance(value, (Secret, Output)) else builtin(value)
    if not isinstance(secret, (str, Secret, Output)):
        raise wrong_type(setting, value, "the path of a file, or a secret Output")
    return secret


def _image(value: Any, setting: str) -> Any:
    """Check an image: its name, an Output of its name, or the spec of an image to build."""
    if value is None or isinstance(value, (str, Output)):
        return value
    return _IMAGE(value, setting)


_IMAGE = instance_of(ImageSpec, "the name of an image, an Output of one, or Image(...)")


@dataclass(frozen=True, kw_only=True)
class SharedSettings:
    """Settings of every process of an experiment or a group.

    Lists are concatenated, the experiment's items first. Mappings are merged by key. For every key and every
    other setting, the process overrides its group, and the group the experiment.
    """

    preamble_cmds: tuple[str, ...] = setting(texts, (), keyword=True, varies=True)
    start_dir: str | None = setting(OPTIONAL_TEXT, keyword=True, varies=True)
    code: tuple[str, ...] = setting(texts, (), keyword=True)
    env: Mapping[str, str] = setting(environment, {}, keyword=True)
    secret_env: Mapping[str, Secret] = setting(mapping_of(_secret), {}, keyword=True, varies=True)
    image: str | ImageSpec | None = setting(_image, keyword=True, varies=True, part=ImageSpec)
    termination_delay: float | None = setting(duration, keyword=True, varies=True)


@dataclass(frozen=True, kw_only=True)
class MemberSettings(SharedSettings):
    """Settings of a process, or of a group, which apply to each of its processes."""

    image_pull_policy: PullPolicy | None = setting(of_type(PullPolicy | None), keyword=True, varies=True)
    mounts: tuple[Mount, ...] = setting(all_of(instance_of(Mount)), (), varies=True, part=Mount)
    place: Place = setting(instance_of(Place), Place(), keyword=True, varies=True, part=Place)
    depends_on: tuple[Dependency, ...] = setting(dependencies, (), keyword=True, varies=True, part=Dependency)
    pod: PodSettings = setting(instance_of(PodSettings), PodSettings(), part=PodSettings)
