"""Which images an `up` builds and pushes, and why: what is declared against what the state records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from symphony.backends.observe import Resource
from symphony.plan.code import CodeSets, changed_names
from symphony.plan.problems import count

TYPE = "pulumi-python:dynamic/symphony_docker:Image"
# So many files are named one by one.
_NAMED = 3


@dataclass(frozen=True)
class ImageChange:
    """An image that is built and pushed, and every reason for that."""

    name: str
    reference: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"image {self.name}: build and push {self.reference} ({'; '.join(self.reasons)})"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def image_changes(
    resources: Iterable[Resource], planned: Sequence[Mapping[str, Any]], known: CodeSets
) -> tuple[ImageChange, ...]:
    """A row for each image that is another one than recorded, in the order of the plan.

    known: the files that the digests of the recorded and of the planned ones stand for.
    """
    recorded = {each.name: each.inputs for each in resources if each.type == TYPE}
    rows = ((each, _reasons(recorded.get(each["name"]), each["inputs"], known)) for each in planned)
    return tuple(ImageChange(each["name"], each["reference"], why) for each, why in rows if why)


def _reasons(before: Mapping[str, Any] | None, after: Mapping[str, Any], known: CodeSets) -> tuple[str, ...]:
    if before is None:
        return ("new",)
    if before.get("repository") != after["repository"]:
        return (f"repository: {before.get('repository')} -> {after['repository']}",)
    if before.get("identity") == after["identity"]:
        # The experiment may be called otherwise.
        return () if before.get("tag") == after["tag"] else ("another tag",)
    old: Mapping[str, str] = before.get("parts") or {}
    new: Mapping[str, str] = after["parts"]
    names = [name for name in {**new, **old} if old.get(name) != new.get(name)]
    reasons = [name for name in names if name != "files"]
    if "files" in names:
        changed = changed_names(str(old.get("files")), new["files"], known)
        shown = [name for name in changed or () if name != after["dockerfile"] or "Dockerfile" not in reasons]
        reasons += [_files(shown)] if shown else [] if changed else ["files"]
    return tuple(reasons)


def _files(names: Sequence[str]) -> str:
    """`2 files: a.py, b.py`."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{count(len(names), 'file')}: {', '.join(names[:_NAMED])}{more}"
