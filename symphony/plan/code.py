"""The code of a process: a digest of all its files, and the files behind each digest."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from symphony.content import digests
from symphony.content.code_files import VARIABLE as VARIABLE
from symphony.plan.names import and_more

if TYPE_CHECKING:
    # Commands that only read do without the declaration's modules.
    from symphony.spec.experiment import ExperimentSpec

# digest -> file -> digest
CodeSets = Mapping[str, Mapping[str, str]]
_SHOWN = 5
_LENGTH = 16
_FILE_LENGTH = 8


def files_of(spec: ExperimentSpec, code: Iterable[str]) -> dict[str, str]:
    """Return the digest of every file that the given entries of `code=` match."""
    matched = (spec.code_files[pattern].files for pattern in code if pattern in spec.code_files)
    return {name: digest for files in matched for name, digest in files.items()}


def digest_of(files: Mapping[str, str]) -> str:
    return digests.of_all(files)[:_LENGTH]


def pack(code: CodeSets) -> str:
    """Return code sets as a compressed string for the state."""
    short = {digest: short_digests(files) for digest, files in code.items()}
    return base64.b64encode(zlib.compress(json.dumps(short, sort_keys=True).encode())).decode()


def short_digests(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files with digests shortened as in the state."""
    return {name: digest[:_FILE_LENGTH] for name, digest in files.items()}


def unpack(text: str) -> dict[str, dict[str, str]]:
    """Return the code sets in a string made by pack(); empty for any other string."""
    with suppress(ValueError, zlib.error):
        value: Any = json.loads(zlib.decompress(base64.b64decode(text)))
        if isinstance(value, dict):
            return cast("dict[str, dict[str, str]]", value)
    return {}


def changed_names(before: str, after: str, known: CodeSets) -> list[str] | None:
    """Return the files in which two digests differ; None if the files of either are unknown."""
    if before not in known or after not in known:
        return None
    return digests.changed_names(*(short_digests(known[key]) for key in (before, after)))


def why(before: str | None, after: str | None, known: CodeSets) -> str:
    """Return the files in which two digests differ, in words: `code: agents/net.py, train.py`."""
    if not before or not after:
        return "code: now declared" if after else "code: no longer declared"
    names = changed_names(before, after, known)
    if names is None:
        return f"code: {before[:_FILE_LENGTH]} -> {after[:_FILE_LENGTH]}"
    return f"code: {and_more(names, _SHOWN)}"
