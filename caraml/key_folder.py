"""A folder of CURVE keys, and the clients it allows.

A key folder holds `server.public`, `server.secret`, for each client `NAME.public` and `NAME.secret`, and
`allowed`: the public keys of the clients that may connect, one a line. `python -m caraml.keys` makes it. A
binding socket with `keys=folder` is the server and admits the allowed; a connecting one is the client
`client` (or, `keys=folder:NAME`, another). Secrets readable by anybody but their owner are refused, and so is
a list or a folder that somebody else may write.
"""

import os
import stat
from pathlib import Path

from caraml.errors import KeyFileError

DEFAULT_CLIENT = "client"
ALLOWED = "allowed"


class Keys:
    """A key folder and the client in it that connecting sockets are."""

    def __init__(self, folder: str | Path, client: str = DEFAULT_CLIENT) -> None:
        self.folder = Path(folder)
        self.client = client
        self._allowed: frozenset[bytes] = frozenset()
        self._read_at = -1

    @classmethod
    def of(cls, given: "str | Path | Keys") -> "Keys":
        """Keys as sockets take them: `folder`, `folder:client`, or Keys."""
        if isinstance(given, Keys):
            return given
        folder, colon, client = str(given).rpartition(":")
        return cls(folder, client) if colon and not Path(given).is_dir() else cls(given)

    def public(self, name: str) -> bytes:
        """A public key. Raises KeyFileError."""
        return self._read(self.folder / f"{name}.public")

    def secret(self, name: str) -> bytes:
        """A secret key. Raises KeyFileError, also where others can read it."""
        path = self.folder / f"{name}.secret"
        key = self._read(path)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise KeyFileError(f"{path} can be read by others; chmod 600 {path}")
        return key

    def allowed(self) -> frozenset[bytes]:
        """The clients' public keys; read again when the file changes, so that removing a line shuts a client
        out.
        """
        path = self.folder / ALLOWED
        try:
            _refuse_writable(self.folder)
            changed = _refuse_writable(path).st_mtime_ns
            if changed != self._read_at:
                words = (line.split()[:1] for line in path.read_bytes().splitlines())
                self._allowed = frozenset(word[0] for word in words if word and len(word[0]) == 40)
                self._read_at = changed
        except KeyFileError:
            raise
        except OSError as error:
            raise KeyFileError(f"{path}: {error.strerror}; run python -m caraml.keys {self.folder}") from None
        return self._allowed

    def _read(self, path: Path) -> bytes:
        try:
            key = path.read_bytes().strip()
        except OSError as error:
            raise KeyFileError(f"{path}: {error.strerror}; run python -m caraml.keys {self.folder}") from None
        if len(key) != 40:
            raise KeyFileError(f"{path} is not a key: {len(key)} characters, not 40")
        return key


def _refuse_writable(path: Path) -> os.stat_result:
    """Raises KeyFileError for a file or folder in which somebody else may change who is allowed."""
    status = path.stat()
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX  # what is in it stays its owner's
    if status.st_mode & 0o022 and not sticky:
        raise KeyFileError(f"{path} can be written by others; chmod go-w {path}")
    if status.st_uid not in (0, os.geteuid()):
        raise KeyFileError(f"{path} belongs to user {status.st_uid}; it must be yours or root's")
    return status
