"""Inputs of a process that are read at launch: code files, secret values, the image to build."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from symphony.spec.convert import FLAG, OPTIONAL_TEXT, strict_text, texts, variables
from symphony.spec.location import NOWHERE, Location
from symphony.spec.setting import Checked, required, setting


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
    """An image to be built.

    Attributes:
        dockerfile_text: Replaces the file that dockerfile names.
        include: The files that are sent to the builder; empty for all.
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
