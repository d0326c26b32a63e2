"""Makes single-layer images and pushes them to the registry, without Docker; for `up` and tests."""

import gzip
import hashlib
import http.client
import io
import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolchain.kubernetes.calls import ToolchainError
from toolchain.kubernetes.layout import PAUSE_IMAGE, REGISTRY
from toolchain.kubernetes.packages import search_path

# Every `up` pushes it; a node that has pulled this tag keeps the old content until `down`.
BUSYBOX_IMAGE = f"{REGISTRY}/symphony/busybox:1"
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
# The tools of busybox that images get as links. The tag of python_image does not depend on them: after a
# change, purge the registry.
TOOLS = (
    "sh",
    "sleep",
    "cat",
    "echo",
    "env",
    "ls",
    "true",
    "false",
    "kill",
    "id",
    "tar",
    "mkdir",
    "rm",
    "date",
)
_MORE_TOOLS = ("httpd", "nc", "nslookup", "wget", "ps")


def push_own(pause: Path) -> None:
    """Push the two images of every cluster: the pause image, and busybox."""
    push(PAUSE_IMAGE, {"pause": pause.read_bytes()}, ["/pause"])
    links = {f"bin/{tool}": "busybox" for tool in (*TOOLS, *_MORE_TOOLS)}
    push(BUSYBOX_IMAGE, {"bin/busybox": busybox_program().read_bytes()}, ["/bin/sh"], links=links)


def busybox_program() -> Path:
    """Return the path of busybox on this machine: a static shell with tools."""
    program = shutil.which("busybox", path=search_path())
    if not program:
        raise ToolchainError("busybox-static is not installed")
    return Path(program)


def is_pushed(image: str) -> bool:
    """Return whether the registry has `host/name:tag`."""
    host, _, rest = image.partition("/")
    name, _, tag = rest.rpartition(":")
    return _Registry(host, name).has(tag)


def push(
    image: str, files: Mapping[str, bytes], command: Sequence[str], links: Mapping[str, str] | None = None
) -> None:
    """Push `host/name:tag` with these executable files (and symbolic links) as its whole file system."""
    host, _, rest = image.partition("/")
    name, _, tag = rest.rpartition(":")
    layer = _layer(files, links or {})
    packed = gzip.compress(layer, compresslevel=1, mtime=0)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": list(command), "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    ).encode()
    registry = _Registry(host, name)
    registry.push_blob(packed)
    registry.push_blob(config)
    registry.push_manifest(
        tag,
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [_descriptor(_LAYER, packed)],
        },
    )


class _Registry:
    """The requests for one image name of a registry."""

    def __init__(self, host: str, name: str) -> None:
        self._host, self._name = host, name

    def push_blob(self, content: bytes) -> None:
        digest = _digest(content)
        if self._send("HEAD", f"/v2/{self._name}/blobs/{digest}", expected=(200, 404))[0] == 200:
            return
        _, place = self._send("POST", f"/v2/{self._name}/blobs/uploads/", expected=(202,))
        separator = "&" if urlsplit(place).query else "?"
        self._send(
            "PUT", f"{place}{separator}digest={digest}", content, "application/octet-stream", expected=(201,)
        )

    def has(self, tag: str) -> bool:
        return self._send("HEAD", f"/v2/{self._name}/manifests/{tag}", expected=(200, 404))[0] == 200

    def push_manifest(self, tag: str, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self._send("PUT", f"/v2/{self._name}/manifests/{tag}", body, _MANIFEST, expected=(201,))

    def _send(
        self, verb: str, place: str, body: bytes = b"", kind: str = "", *, expected: tuple[int, ...]
    ) -> tuple[int, str]:
        target = urlsplit(place)
        connection = http.client.HTTPConnection(self._host, timeout=30)
        try:
            path = f"{target.path}?{target.query}" if target.query else target.path
            headers = {"Accept": _MANIFEST, **({"Content-Type": kind} if kind else {})}
            connection.request(verb, path, body or None, headers)
            answer = connection.getresponse()
            if answer.status not in expected:
                raise ToolchainError(
                    f"the registry answered {answer.status} to {verb} {path}: {answer.read()[:200]!r}"
                )
            return answer.status, answer.getheader("Location", "")
        finally:
            connection.close()


def _layer(files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for folder in [*sorted({str(Path(name).parent) for name in files} - {"."}), "tmp"]:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(entry)
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = 0o755, len(content)
            archive.addfile(entry, io.BytesIO(content))
        for name, target in sorted(links.items()):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return buffer.getvalue()


def _descriptor(kind: str, content: bytes) -> dict[str, Any]:
    """Return the descriptor of a blob, as a manifest contains it."""
    return {"mediaType": kind, "size": len(content), "digest": _digest(content)}


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
