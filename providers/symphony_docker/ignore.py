"""Which files of a build context are sent: those that .dockerignore leaves in and that are no secret."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

# Never sent, wherever they lie: version control, keys and credentials, state, and what belongs to the Python
# of this machine, some of which would make another image each time.
_FOLDERS = re.compile(r"\.(git|hg|svn|ssh|aws|azure|kube|docker|gnupg|pulumi|venv)|__pycache__")
_FILES = re.compile(
    r"\.env(rc|\..+)?|.+\.(pem|key|ppk|p12|pfx|jks|keystore|kdbx|kubeconfig|py[co])|id_(rsa|dsa|ecdsa|ed25519)(_sk)?"
    r"|kubeconfig(\..+)?|\.netrc|\.pypirc|\.git-credentials|\.git|\.dockercfg|\.dockerconfigjson|\.boto|\.s3cfg"
    r"|application_default_credentials\.json|Pulumi\..+\.yaml"
)
_HARMLESS = re.compile(r"\.env\.(example|sample|template|dist)")
_GCLOUD = re.compile(r"(.*/)?\.config/gcloud")
# What else a name says to be a credential; it is for a person to decide.
_SUSPECT = re.compile(
    r"(?i)(.*[-_.])?(credentials?|secrets?|service[-_]?account([-_]?key)?|passwords?|passwd|api[-_]?keys?)"
    r"([-_.].*)?\.?(json|ya?ml|toml|ini|cfg|conf|txt|env|csv)|\.?(credentials?|htpasswd|npmrc|vault-token)"
    r"|\.?([a-z]+[-_])?token(\.txt)?"
)
_SUSPECT_CONTENT = (
    (re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----"), "holds a private key"),
    (re.compile(rb'"type"\s*:\s*"service_account"'), "is the key of a service account"),
    (re.compile(rb"(?m)^\s*client-key-data\s*:\s*\S"), "is a kubeconfig"),
    (re.compile(rb"(?i)aws_secret_access_key\s*[=:]\s*[\"']?[A-Za-z0-9/+]{40}"), "holds an AWS key"),
    (re.compile(rb'"auths?"\s*:\s*\{.{0,400}"auth"\s*:\s*"', re.DOTALL), "holds registry credentials"),
)
_GLOB = frozenset("*?[")
# A key is short; what is larger is data.
LARGEST_LOOKED_INTO = 256 * 1024


def is_left_out(name: str) -> bool:
    """Whether a file, or a folder with a slash at its end, is never sent.

    >>> is_left_out("a/.git/"), is_left_out("keys/id_rsa"), is_left_out("train.py")
    (True, True, False)
    """
    base = name.rstrip("/").rpartition("/")[2]
    if name.endswith("/"):
        return _FOLDERS.fullmatch(base) is not None or _GCLOUD.fullmatch(name.rstrip("/")) is not None
    return _FILES.fullmatch(base) is not None and _HARMLESS.fullmatch(base) is None


def looks_secret(name: str) -> str:
    """Why a file may be a credential by its name; empty when it does not look like one.

    >>> looks_secret("conf/gcp-credentials.json"), looks_secret("tokenizer.json"), looks_secret("secrets.py")
    ('is named like a credential', '', '')
    """
    base = name.rpartition("/")[2]
    return "is named like a credential" if _SUSPECT.fullmatch(base) else ""


def holds_secret(content: bytes) -> str:
    """Why a file may be a credential by what is in it; empty when it does not look like one."""
    return next((why for pattern, why in _SUSPECT_CONTENT if pattern.search(content)), "")


@dataclass(frozen=True)
class DockerIgnore:
    """The rules of .dockerignore, as Docker reads it, beside what is never sent.

    root:  the context, an absolute path with a slash at its end.
    state: a folder of symphony's own in it, which is not sent either.
    allow: files and folders that are sent although they are called like credentials.
    only:  the files, folders and globs that are sent; all if there are none.
    """

    root: str
    lines: tuple[str, ...] = ()
    state: str = ""
    allow: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    _rules: tuple[tuple[bool, re.Pattern[str]], ...] = field(init=False, compare=False)
    _has_exceptions: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        rules = tuple(_rules(self.lines))
        object.__setattr__(self, "_rules", rules)
        object.__setattr__(self, "_has_exceptions", any(not leaves_out for leaves_out, _ in rules))

    @property
    def key(self) -> str:
        """Tells these rules from others."""
        ours = (_FILES.pattern, _FOLDERS.pattern)
        text = repr((self.root, self.lines, self.state, self.allow, self.only, *ours))
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def within(self, folder: str) -> DockerIgnore:
        """The same in every folder: only the .dockerignore of the context counts."""
        del folder
        return self

    def leaves_out(self, path: str) -> bool:
        """Whether a file, or a folder with all in it, is not sent; a folder has a slash at its end."""
        name = path[len(self.root) :]
        is_folder, plain = name.endswith("/"), name.rstrip("/")
        if self.only and not any(is_chosen(plain, each, is_folder) for each in self.only):
            return True
        if not any(_is_within(plain, each, is_folder) for each in self.allow) and (
            is_left_out(name) or (self.state and path == self.state)
        ):
            return True
        left_out = False
        for leaves_out, pattern in self._rules:
            if left_out != leaves_out and pattern.fullmatch(plain):
                left_out = leaves_out
        # What is in a folder may be taken back, so that the folder is looked into.
        return left_out and not (is_folder and self._has_exceptions)


def plain_part(chosen: str) -> str:
    """The folder in which everything lies that a glob may match; what is no glob is itself.

    >>> plain_part("agents/**/*.py"), plain_part("*.py"), plain_part("train.py")
    ('agents', '.', 'train.py')
    """
    parts = chosen.split("/")
    first = next((i for i, part in enumerate(parts) if _GLOB & {*part}), len(parts))
    return "/".join(parts[:first]) or "."


def is_chosen(name: str, chosen: str, is_folder: bool = False) -> bool:
    """Whether a path or a glob stands for a file; of a folder, whether it may hold such a file."""
    if not _GLOB & {*chosen}:
        return _is_within(name, chosen, is_folder)
    if is_folder and _is_within(name, plain_part(chosen), is_folder):
        return True
    return re.fullmatch(_translated(chosen), name) is not None


def _is_within(name: str, chosen: str, is_folder: bool) -> bool:
    """Whether a file is chosen or in a chosen folder; of a folder also whether something chosen is in it."""
    return (
        chosen in (".", name)
        or name.startswith(f"{chosen}/")
        or (is_folder and chosen.startswith(f"{name}/"))
    )


def _rules(lines: Sequence[str]) -> list[tuple[bool, re.Pattern[str]]]:
    """In the order of the file; neighbours that say the same kind of thing are one pattern."""
    patterns: list[tuple[bool, list[str]]] = []
    for i, line in enumerate(lines):
        text = (line.removeprefix("\ufeff") if i == 0 else line).rstrip("\r\n")
        if text.startswith("#") or not (text := text.strip()):
            continue
        leaves_out = not text.startswith("!")
        cleaned = _cleaned(text.removeprefix("!").strip())
        if not cleaned:
            continue
        if not patterns or patterns[-1][0] != leaves_out:
            patterns.append((leaves_out, []))
        patterns[-1][1].append(_translated(cleaned))
    return [(leaves_out, re.compile("|".join(each), re.DOTALL)) for leaves_out, each in patterns]


def _cleaned(pattern: str) -> str:
    parts: list[str] = []
    for part in pattern.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return "/".join(parts)


@cache
def _translated(pattern: str) -> str:
    """A pattern of Docker as a regular expression; what is in a folder that it matches goes with it."""
    result, i = "", 0
    while i < len(pattern):
        if pattern.startswith("**", i):
            i += 2
            if pattern.startswith("/", i):
                result, i = f"{result}(?:.*/)?", i + 1
            else:
                result += ".*"
        elif pattern[i] == "[" and (end := pattern.find("]", i + 2)) > 0:
            inner = pattern[i + 1 : end].replace("\\", "\\\\")
            result, i = f"{result}[{inner}]", end + 1
        elif pattern[i] == "\\" and i + 1 < len(pattern):
            result, i = f"{result}{re.escape(pattern[i + 1])}", i + 2
        else:
            result += {"*": "[^/]*", "?": "[^/]"}.get(pattern[i]) or re.escape(pattern[i])
            i += 1
    return f"(?:{result})(?:/.*)?"
