"""The build context of an image: its files, their digests, and the archive for Docker.

Equal files make an equal archive: it has no times, owners or modes other than the x bit.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import stat
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symphony import paths
from symphony.content import digests
from symphony.content.digests import stamp_of
from symphony.errors import SymphonyError, UserError
from symphony.files import read_source
from symphony_docker import secrets

_IGNORE = ".dockerignore"
# The folder in the context that holds the caraml of this symphony.
CARAML = ".symphony/caraml"
MAX_BYTES = 10 * 10**9
# 1 January 2000: a zip file, and so a wheel, cannot hold a date before 1980.
_TIME = 946_684_800
_CHUNK = 1 << 20
_GLOB = frozenset("*?[")


@dataclass(frozen=True)
class Source:
    """The part of an image's declaration that selects its files.

    dockerfile: a path relative to the context; dockerfile_text replaces that file.
    include:    files, folders and globs of the context; empty for all files.
    allow:      files to send although they look like credentials.
    """

    context: str
    dockerfile: str = "Dockerfile"
    dockerfile_text: str = ""
    include: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """A build context: the Dockerfile, name -> file, name -> digest, and the size in bytes.

    problems: (what, remedy) of each reason why it must not be sent.
    """

    dockerfile: str
    dockerfile_text: str
    files: Mapping[str, str]
    digests: Mapping[str, str]
    size: int = 0
    problems: tuple[tuple[str, str], ...] = ()


def source_of(inputs: Mapping[str, Any]) -> Source:
    """Return the source that the inputs of an image resource describe."""
    return Source(
        str(inputs["context"]),
        str(inputs["dockerfile"]),
        str(inputs.get("dockerfile_text") or ""),
        tuple(inputs.get("include") or ()),
        tuple(inputs.get("allow") or ()),
    )


def read(source: Source, *, look_for_secrets: bool = True) -> Context:
    """Return the files that a build would send, with their digests, and every problem with them."""
    root = Path(source.context).absolute()
    if not root.is_dir():
        return _refused(
            f"the context {source.context} is not a folder", "Set it to the folder of the image's files"
        )
    file = root / source.dockerfile
    try:
        text = source.dockerfile_text or read_source(file).decode().replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or "not UTF-8 text").lower()
        what = f"the Dockerfile {file} cannot be read: {reason}"
        return _refused(
            what, "Create it, name another in dockerfile=, or use Image.python(...), which needs none"
        )
    try:
        files = {name: f"{root}/{name}" for name in _names(root, source)}
        if CARAML in text:
            files |= _caraml()
        sizes = {name: os.lstat(path).st_size for name, path in files.items()}
        if sum(sizes.values()) > MAX_BYTES:
            return _refused(*_too_large(sizes))
        digest = {name: digests.of_file(path, follow=False) for name, path in files.items()}
        problems = list(_problems(root, files, source.allow)) if look_for_secrets else []
    except OSError as error:
        return _refused(
            f"{error.filename or root} cannot be read: {(error.strerror or str(error)).lower()}",
            "Exclude it in .dockerignore, or make it readable",
        )
    problems += _missing(root, source.include, files)
    return Context(_name_of_dockerfile(source), text, files, digest, sum(sizes.values()), tuple(problems))


def parts(
    context: Context, build_args: Mapping[str, str], target: str = "", platform: str = ""
) -> dict[str, str]:
    """Return the digest of each part that determines the content of an image."""
    texts = {"Dockerfile": context.dockerfile_text, "target": target, "platform": platform}
    texts["build_args"] = json.dumps(dict(build_args), sort_keys=True) if build_args else ""
    result = {name: hashlib.sha256(text.encode()).hexdigest()[:32] for name, text in texts.items() if text}
    return {**result, "files": digests.of_all(context.digests)}


def identity(parts: Mapping[str, str]) -> str:
    """Return thirty-two hex digits that identify an image by its content."""
    return digests.of_all(parts)


def plain_part(pattern: str) -> str:
    """Return the folder that contains all matches of a glob; a path without wildcards is unchanged.

    >>> plain_part("agents/**/*.py"), plain_part("*.py"), plain_part("train.py")
    ('agents', '.', 'train.py')
    """
    folders = pattern.split("/")
    first = next((i for i, part in enumerate(folders) if _GLOB & {*part}), len(folders))
    return "/".join(folders[:first]) or "."


def _refused(what: str, remedy: str) -> Context:
    return Context("", "", {}, {}, 0, ((what, remedy),))


def _name_of_dockerfile(source: Source) -> str:
    """Return the name in the archive; as with `docker build -f`, the file may be outside of the context."""
    name = posixpath.normpath(source.dockerfile)
    return "Dockerfile" if name.startswith(("/", "..")) else name


def _names(root: Path, source: Source) -> list[str]:
    """Return the files that .dockerignore, `include` and the rules for credentials select."""
    ignored = _Patterns(_ignore_lines(root, source))
    includes = [posixpath.normpath(pattern) for pattern in source.include]
    included = _Patterns(includes)
    allowed = [posixpath.normpath(path) for path in source.allow]
    own_home = os.path.relpath(paths.home().resolve(), root.resolve())

    def is_excluded(name: str, is_folder: bool) -> bool:
        if name == own_home:
            return True
        if secrets.is_left_out(name, is_folder) and not _holds(allowed, name, is_folder):
            return True
        return ignored.matches(name) and not (is_folder and ignored.may_except(name))

    roots = sorted({plain_part(pattern) for pattern in includes}) or ["."]
    names = {name: None for top in roots for name in _walk(root, top, is_excluded)}
    includes_all = not includes or "." in includes
    return sorted(name for name in names if name != _IGNORE and (includes_all or included.matches(name)))


class _Patterns:
    """Patterns as in .dockerignore: each matches a path and all below it, and the last match decides."""

    def __init__(self, lines: Sequence[str]) -> None:
        from docker.utils.build import PatternMatcher

        patterns: Any = PatternMatcher(lines).patterns
        self._patterns = [(pattern.cleaned_pattern, pattern.exclusion) for pattern in patterns]
        # Path -> which patterns match it or a folder above it.
        self._hits = {"": [False] * len(patterns)}
        # The folders that contain all exceptions.
        self._excepted = [plain_part(pattern) for pattern, is_exception in self._patterns if is_exception]

    def matches(self, name: str) -> bool:
        """Return whether the patterns match a path, as BuildKit does."""
        # docker-py's matcher looks at one parent only, and ignores case.
        from docker.utils.fnmatch import fnmatchcase

        folder = name.rpartition("/")[0]
        if folder not in self._hits:
            self.matches(folder)
        matched, hits = False, [*self._hits[folder]]
        for i, (pattern, is_exception) in enumerate(self._patterns):
            # As in BuildKit, an exception to nothing does not hold below its folder.
            if not hits[i] and is_exception == matched:
                hits[i] = fnmatchcase(name, pattern)
            if hits[i]:
                matched = not is_exception
        self._hits[name] = hits
        return matched

    def may_except(self, folder: str) -> bool:
        """Return whether an exception may match something in a folder."""
        return any(
            top == "." or f"{top}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{top}/")
            for top in self._excepted
        )


def _holds(allowed: Collection[str], name: str, is_folder: bool) -> bool:
    """Return whether a name is allowed or in an allowed folder, or is a folder above an allowed name."""
    parents = [name, *map(str, Path(name).parents)]
    return any(path in parents or (is_folder and path.startswith(f"{name}/")) for path in allowed)


def _walk(root: Path, top: str, is_excluded: Any) -> Iterator[str]:
    start = root / top
    above = [folder for folder in map(str, Path(top).parents) if folder != "."]
    if any(is_excluded(folder, True) for folder in above):
        return
    if start.is_symlink() or not start.is_dir():
        if start.is_symlink() or start.is_file():
            yield from () if is_excluded(top, False) else (top,)
        return
    if top != "." and is_excluded(top, True):
        return
    folders = [f"{root}/" if top == "." else f"{root}/{top}/"]
    begin = len(f"{root}/")
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                name = entry.path[begin:]
                if entry.is_dir(follow_symlinks=False):
                    if not is_excluded(name, True):
                        folders.append(f"{entry.path}/")
                # Docker sends no sockets, pipes and devices.
                elif (entry.is_symlink() or entry.is_file()) and not is_excluded(name, False):
                    yield name


def _ignore_lines(root: Path, source: Source) -> list[str]:
    # Docker prefers the ignore file of the Dockerfile to that of the context.
    for name in (f"{source.dockerfile}.dockerignore", _IGNORE):
        file = root / name
        with suppress(OSError):
            if file.is_file():
                lines = file.read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines()
                patterns = (line.strip() for line in lines if line.strip() and not line.startswith("#"))
                return [_for_docker_py(pattern) for pattern in patterns]
    return []


def _for_docker_py(pattern: str) -> str:
    r"""Return a pattern without what Docker knows and docker-py does not: `[^a]` and `\*`.

    >>> _for_docker_py(r"!app/[^a]/\*b"), _for_docker_py(r"\#notes")
    ('!app/[!a]/[*]b', '#notes')
    """
    unescaped = re.sub(r"\\(.)", lambda match: f"[{match[1]}]" if match[1] in _GLOB else match[1], pattern)
    return unescaped.replace("[^", "[!")


def _caraml() -> dict[str, str]:
    import importlib.util

    spec = importlib.util.find_spec("caraml")
    if spec is None or spec.origin is None:
        raise UserError("caraml is not installed", remedy="Install symphony-launch, which brings it")
    folder = Path(spec.origin).parent
    return {f"{CARAML}/{file.relative_to(folder)}": str(file) for file in sorted(folder.rglob("*.py"))}


def _too_large(sizes: Mapping[str, int]) -> tuple[str, str]:
    total = f"{sum(sizes.values()) / 1e9:.1f} GB, more than {MAX_BYTES / 1e9:.0f}"
    what = f"the context has {total}; the largest file is {max(sizes, key=lambda name: sizes[name])}"
    return what, "Exclude files that the image does not need in .dockerignore"


def _missing(root: Path, include: Sequence[str], files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield a problem for each path that includes no file; Docker would report it only at the COPY step."""
    for path in include:
        name = posixpath.normpath(path)
        if name == "." or any(map(_Patterns([name]).matches, files)):
            continue
        remedy = (
            "Name existing files, folders and globs of the context;"
            " Image.python(requirements=None) needs no requirements file"
        )
        if name.startswith(("/", "..")):
            reason = f"{path} is outside of the context {root}"
        elif os.path.lexists(root / name):
            reason = f"{path} is empty, or .dockerignore or a rule for credentials excludes every file of it"
            remedy = f'Change .dockerignore, or set allow=["{path}"] for files that look like credentials'
        else:
            reason = f"{path} does not exist in {root}"
        yield reason, remedy


def _problems(root: Path, files: Mapping[str, str], allow: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield links that lead out of the context, and files that look like credentials."""
    allowed = {posixpath.normpath(path) for path in allow}
    for name, path in files.items():
        if Path(path).is_symlink():
            if target := _outside(root, path):
                yield (
                    f"{name} is a link to {target}, outside of the context",
                    "Copy its target into the context, or exclude the link in .dockerignore",
                )
        elif name not in allowed and (reason := secrets.suspicion(name, path)):
            yield (
                f"{name} {reason} and would be in the image",
                f'Exclude it in .dockerignore, or set allow=["{name}"] if it is not a credential',
            )


def _outside(root: Path, path: str) -> str:
    """Return the target of a link that leads out of the context, else an empty string."""
    target = Path(path).readlink()
    full = os.path.normpath(Path(path).parent / target)
    inside = not target.is_absolute() and f"{full}/".startswith(f"{root}/")
    return "" if inside else str(target)


def archive(context: Context) -> Iterator[bytes]:
    """Yield the tar archive of a context, in pieces.

    Raises:
        SymphonyError: A file has changed.
    """
    for name, path in sorted(context.files.items()):
        if name == context.dockerfile:
            continue
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            yield _header(name, 0, status, str(Path(path).readlink()))
        else:
            yield _header(name, status.st_size, status)
            yield from _content(name, path, status)
    text = context.dockerfile_text.encode()
    yield _header(context.dockerfile, len(text))
    yield text + bytes(-len(text) % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _header(name: str, size: int, status: os.stat_result | None = None, link: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, _TIME
    info.mode = 0o755 if status is not None and status.st_mode & stat.S_IXUSR else 0o644
    if link:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, link, 0o777
    return info.tobuf(tarfile.PAX_FORMAT)


def _content(name: str, path: str, status: os.stat_result) -> Iterator[bytes]:
    remaining = status.st_size
    with Path(path).open("rb") as file:
        while remaining and (chunk := file.read(min(_CHUNK, remaining))):
            remaining -= len(chunk)
            yield chunk
        if remaining or stamp_of(os.fstat(file.fileno())) != stamp_of(status):
            raise SymphonyError(f"{name} changed while the image was built", remedy="Run the command again")
    yield bytes(-status.st_size % tarfile.BLOCKSIZE)
