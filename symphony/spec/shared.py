"""The settings that an experiment, a group and a process share, and inputs that are read at launch."""

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Protocol, TypedDict

from symphony.spec.location import NOWHERE, Location
from symphony.spec.order import Dependencies, Dependency, dependencies
from symphony.spec.pod import Mount, Place, PodSettings, RestartPolicy, Toleration
from symphony.spec.setting import (
    FLAG,
    OPTIONAL_TEXT,
    Checked,
    Output,
    all_of,
    builtin,
    duration,
    environment,
    instance_of,
    mapping_of,
    of_type,
    required,
    setting,
    strict_text,
    texts,
    variables,
    wrong_type,
)


@dataclass(frozen=True)
class CodeFiles:
    """The files that one entry of `code=` matches.

    Attributes:
        files: The digest of each file, by its path from the folder of the project.
        trouble: The reason why there are no files; empty if there are some.
    """

    files: Mapping[str, str] = field(default_factory=dict[str, str])
    trouble: str = ""


@dataclass(frozen=True)
class ImageSpec(Checked):
    """An image to be built, as Image(...) passes it with its own defaults; those here complete a saved dict.

    Attributes:
        dockerfile_text: Replaces the file that dockerfile names.
        include: The files that are sent to the builder; empty for all.
        allow: The files that are sent although they look like credentials.
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


class Secret:
    """The value of a variable in secret_env.

    Attributes:
        source: The file of the value; empty for an Output or a secret setting.
        trouble: The reason why there is no value, without the value itself; empty if there is one.
        is_known: False in a preview, for an Output that only the run creates.
    """

    __slots__ = ("_value", "is_known", "source", "trouble")

    def __init__(
        self, value: str = "", *, source: str = "", trouble: str = "", is_known: bool = True
    ) -> None:
        self._value = value
        self.source = source
        self.trouble = trouble
        self.is_known = is_known

    def reveal(self) -> str:
        """Return the value, for the backend alone; empty if it is not known yet."""
        return self._value

    def digest(self, key: bytes) -> str:
        """Return a keyed digest of the value; without the key the value cannot be guessed from it."""
        if not self.is_known:
            return "unknown"
        return hmac.new(key, self._value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]

    def __repr__(self) -> str:
        return self.source or "[secret]"


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
        return self.lines.get(setting) or self.lines.get(setting.partition(" ")[0], self.where)


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
    """Settings of a process, or of each process of a group; a group's place and pod are those of its pod."""

    image_pull_policy: PullPolicy | None = setting(of_type(PullPolicy | None), keyword=True, varies=True)
    mounts: tuple[Mount, ...] = setting(all_of(instance_of(Mount)), (), varies=True, part=Mount)
    place: Place = setting(instance_of(Place), Place(), keyword=True, varies=True, part=Place)
    depends_on: tuple[Dependency, ...] = setting(dependencies, (), keyword=True, varies=True, part=Dependency)
    pod: PodSettings = setting(instance_of(PodSettings), PodSettings(), part=PodSettings)
