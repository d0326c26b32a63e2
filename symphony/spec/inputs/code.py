"""The files that a text of `code=` names: components find them, the plan makes a digest of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CodeFiles:
    """files: digests by path from the folder of the project; trouble: why there are none, or nothing."""

    files: Mapping[str, str] = field(default_factory=dict[str, str])
    trouble: str = ""
