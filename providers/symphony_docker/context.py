"""The files of a build context with their digests, what is wrong with them, and the archive that is sent.

The archive is the same for equal files: order, times, owners and all of a mode but x do not matter.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symphony import paths
from symphony.content import digests, sets, walk
from symphony.content.stat_cache import StatCache, stamp_of
from symphony.errors import SymphonyError, UserError
from symphony_docker import ignore

# Where in the context Docker finds what we send beside the user's files; it takes these two out again.
DOCKERFILE = ".symphony.Dockerfile"
_IGNORE = ".dockerignore"
_TAKEN_OUT = f"{_IGNORE}\n{DOCKERFILE}\n".encode()
# A Dockerfile that names it gets caraml there, whose copy is the one of this symphony.
CARAML = ".symphony/caraml"
LARGEST = 10 * 10**9
# 1 January 2000: a zip file, and so a wheel, knows nothing before 1980.
_TIME = 946_684_800
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Given:
    """What a program says of an image's content; text: a whole Dockerfile, in the place of one in a file.

    only: the files, folders and globs that are sent, all by default.
    allow: files that are sent although they are called like credentials.
    """

    context: str
    dockerfile: str = "Dockerfile"
    text: str = ""
    only: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """What is sent: the Dockerfile, and name -> file; with the digest of each file, and the bytes of all.

    troubles: why it cannot be sent, with what to do, a pair each.
    """

    dockerfile: str
    files: Mapping[str, str]
    digests: Mapping[str, str]
    size: int = 0
    troubles: tuple[tuple[str, str], ...] = ()


def given(inputs: Mapping[str, Any]) -> Given:
    """The same of the inputs of an image's resource."""
    return Given(
        str(inputs["context"]),
        str(inputs["dockerfile"]),
        str(inputs.get("text") or ""),
        tuple(inputs.get("only") or ()),
        tuple(inputs.get("allow") or ()),
    )


def read(given: Given) -> Context:
    """Everything that would be sent; what did not change since the last time is not read again."""
    root = Path(given.context).absolute()
    if not root.is_dir():
        return _none(f"its context {given.context} is not a folder", "Name the folder that holds its files")
    try:
        text = given.text or _dockerfile(root, given.dockerfile).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (getattr(error, "strerror", None) or "it is not UTF-8 text").lower()
        what = f"its Dockerfile {_dockerfile(root, given.dockerfile)} cannot be read: {why}"
        return _none(what, "Write one, name it in dockerfile=, or use Image.python(...), which needs none")
    place = f"{root}/".replace("//", "/")
    try:
        with StatCache("context", root) as cache:
            every = walk.files(place, _rules(place, given), cache)
            # What is left out says nothing of what is in.
            files = {path[len(place) :]: path for path in every if path != f"{place}{_IGNORE}"}
            if CARAML in text:
                files |= _caraml()
            sizes = {name: os.lstat(path).st_size for name, path in files.items()}
            if sum(sizes.values()) > LARGEST:
                return _none(*_too_large(sizes))
            result = {name: digests.of_file(path, cache, follow=False) for name, path in files.items()}
            troubles = _troubles_once(root, files, result, given.allow)
    except OSError as error:
        return _none(
            f"{error.filename or root} cannot be read: {(error.strerror or str(error)).lower()}",
            "Name it in .dockerignore, or make it yours",
        )
    troubles += _not_there(root, given.only, result)
    return Context(text, files, result, sum(sizes.values()), tuple(troubles))


def parts(
    context: Context, build_args: Mapping[str, str], target: str = "", platform: str = ""
) -> dict[str, str]:
    """What an image is made of, a digest each: a change of one of them makes another image."""
    given = {"Dockerfile": context.dockerfile, "target": target, "platform": platform}
    given["build_args"] = json.dumps(dict(build_args), sort_keys=True) if build_args else ""
    result = {name: hashlib.sha256(text.encode()).hexdigest()[:32] for name, text in given.items() if text}
    return {**result, "files": sets.of_all(context.digests)}


def identity(parts: Mapping[str, str]) -> str:
    """Thirty-two hex digits for an image by what it is made of."""
    return sets.of_all(parts)


def _none(what: str, remedy: str) -> Context:
    return Context("", {}, {}, 0, ((what, remedy),))


def _dockerfile(root: Path, name: str) -> Path:
    """As `docker build -f` finds it, which may lie outside of the context."""
    return root / name


def _rules(place: str, given: Given) -> ignore.DockerIgnore:
    lines: list[str] = []
    # One of the Dockerfile's own goes before that of the context, as in Docker.
    for name in (f"{given.dockerfile}.dockerignore", _IGNORE):
        with suppress(OSError):
            lines = Path(place, name).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
            break
    # However the way to it is called: a link to a home is one.
    state = os.path.relpath(paths.home().resolve(), Path(place).resolve())
    return ignore.DockerIgnore(
        place,
        tuple(lines),
        "" if state.startswith("..") else f"{place}{state}/",
        tuple(map(os.path.normpath, given.allow)),
        tuple(map(os.path.normpath, given.only)),
    )


def _caraml() -> dict[str, str]:
    import importlib.util

    spec = importlib.util.find_spec("caraml")
    if spec is None or spec.origin is None:
        raise UserError("caraml is not installed", remedy="Install symphony-launch, which brings it")
    folder = Path(spec.origin).parent
    return {f"{CARAML}/{each.relative_to(folder)}": str(each) for each in sorted(folder.rglob("*.py"))}


def _too_large(sizes: Mapping[str, int]) -> tuple[str, str]:
    total = f"{sum(sizes.values()) / 1e9:.1f} GB, more than {LARGEST / 1e9:.0f}"
    what = f"its context has {total}; the largest file is {max(sizes, key=lambda name: sizes[name])}"
    return what, "Name what the image does not need in .dockerignore"


def _not_there(root: Path, only: Sequence[str], files: Mapping[str, str]) -> list[tuple[str, str]]:
    """What of the code is nothing, which Docker would only say when it comes to copy it."""
    result: list[tuple[str, str]] = []
    for each in only:
        chosen = os.path.normpath(each)
        if any(ignore.is_chosen(name, chosen) for name in files):
            continue
        if chosen.startswith(("/", "..")):
            why = f"{each} is outside of the context {root}"
        elif os.path.lexists(root / chosen):
            why = f".dockerignore excludes every file of {each}"
        else:
            why = f"there is no {each} in {root}"
        result.append((why, "Name files, folders and globs of the context; requirements=None is for none"))
    return result


def _troubles_once(
    root: Path, files: Mapping[str, str], known: Mapping[str, str], allow: Sequence[str]
) -> list[tuple[str, str]]:
    """What is wrong with the files; those in which nothing was, are not looked into again."""
    seen = paths.cache() / "images" / f"sound-{sets.of_all({**known, '': repr((str(root), allow))})}"
    if seen.exists():
        return []
    result = list(_troubles(root, files, {os.path.normpath(each) for each in allow}))
    if not result:
        with suppress(OSError):
            paths.new_file(seen, "")
    return result


def _troubles(root: Path, files: Mapping[str, str], allowed: Container[str]) -> Iterator[tuple[str, str]]:
    for name, path in files.items():
        facts = os.lstat(path)
        if stat.S_ISLNK(facts.st_mode):
            if why := _leads_out(root, path):
                yield f"{name} {why}", "Copy what it means into the context, or name it in .dockerignore"
        elif name not in allowed and (why := ignore.looks_secret(name) or _look_into(path, facts.st_size)):
            what = f"{name} {why} and would be in the image"
            yield what, f'Name it in .dockerignore, or set allow=["{name}"] if it is none'


def _leads_out(root: Path, path: str) -> str:
    target = Path(path).readlink()
    there = os.path.normpath(Path(path).parent / target)
    inside = not target.is_absolute() and f"{there}/".startswith(f"{root}/")
    return "" if inside else f"is a link out of the context, to {target}"


def _look_into(path: str, size: int) -> str:
    return "" if size > ignore.LARGEST_LOOKED_INTO else ignore.holds_secret(Path(path).read_bytes())


def archive(context: Context) -> Iterator[bytes]:
    """A tar of the context as Docker takes it, in pieces. SymphonyError: a file changes meanwhile."""
    yield from _entry(_IGNORE, _TAKEN_OUT)
    yield from _entry(DOCKERFILE, context.dockerfile.encode())
    for name, path in sorted(context.files.items()):
        facts = os.lstat(path)
        if stat.S_ISLNK(facts.st_mode):
            yield _header(name, 0, facts, str(Path(path).readlink()))
        else:
            yield _header(name, facts.st_size, facts)
            yield from _content(name, path, facts)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _entry(name: str, content: bytes) -> Iterator[bytes]:
    yield _header(name, len(content))
    yield content + bytes(-len(content) % tarfile.BLOCKSIZE)


def _header(name: str, size: int, facts: os.stat_result | None = None, link: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, _TIME
    info.mode = 0o755 if facts is not None and facts.st_mode & stat.S_IXUSR else 0o644
    if link:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, link, 0o777
    return info.tobuf(tarfile.PAX_FORMAT)


def _content(name: str, path: str, facts: os.stat_result) -> Iterator[bytes]:
    left = facts.st_size
    with Path(path).open("rb") as file:
        while left and (chunk := file.read(min(_CHUNK, left))):
            left -= len(chunk)
            yield chunk
        if left or stamp_of(os.fstat(file.fileno())) != stamp_of(facts):
            raise SymphonyError(f"{name} changed while the image was built", remedy="Run it again")
    yield bytes(-facts.st_size % tarfile.BLOCKSIZE)
