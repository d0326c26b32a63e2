"""A folder of CURVE keys and the clients it allows; `python -m caraml.keys FOLDER [CLIENT ...]` makes one.

A key folder holds `server.public`, `server.secret`, for each client `NAME.public` and `NAME.secret`, and
`allowed`: the public keys of the clients that may connect, one a line. A binding socket with `keys=folder` is
the server and admits the allowed clients; a connecting one is the client `client`, or NAME with
`keys=folder:NAME`. Copy to a client only `server.public` and its own two files; a server needs `server.*` and
`allowed`. The folder has mode 0700, every secret 0600. Sockets refuse secrets that others can read, binding
ones also a list or folder that others can write. Existing keys are kept; half of a pair is an error.
"""

import os
import stat
from pathlib import Path

import zmq

from caraml.errors import KeyFileError

SERVER = "server"
DEFAULT_CLIENT = "client"
ALLOWED = "allowed"


class Keys:
    """A key folder, and the client whose keys connecting sockets use."""

    def __init__(self, folder: str | Path, client: str = DEFAULT_CLIENT) -> None:
        self.folder = Path(folder)
        self.client = client
        self._allowed: frozenset[bytes] = frozenset()
        self._read_at = -1

    @classmethod
    def parse(cls, keys: "str | Path | Keys") -> "Keys":
        """Return the Keys of a socket's `keys=`: a folder, `folder:client`, or Keys."""
        if isinstance(keys, Keys):
            return keys
        folder, colon, client = str(keys).rpartition(":")
        return cls(folder, client) if colon and not Path(keys).is_dir() else cls(keys)

    def public(self, name: str) -> bytes:
        """Return a public key. Raises KeyFileError."""
        return self._read(self.folder / f"{name}.public")

    def secret(self, name: str) -> bytes:
        """Return a secret key. Raises KeyFileError, also where others can read it."""
        path = self.folder / f"{name}.secret"
        key = self._read(path)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise KeyFileError(f"{path} can be read by others; chmod 600 {path}")
        return key

    def allowed(self) -> frozenset[bytes]:
        """Return the public keys of the allowed clients, read again when the file changes.

        Raises KeyFileError.
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
            raise KeyFileError(
                f"{path}, the list of allowed clients: {error.strerror}; python -m caraml.keys {self.folder}"
                " writes it with new keys; for existing keys, write the text of each CLIENT.public into it,"
                " one a line"
            ) from None
        return self._allowed

    def _read(self, path: Path) -> bytes:
        try:
            key = path.read_bytes().strip()
        except OSError as error:
            raise KeyFileError(
                f"{path}: {error.strerror}; run python -m caraml.keys {self.folder} {self.client} on the"
                " server, and copy server.public and a client's own two files from there"
            ) from None
        if len(key) != 40:
            raise KeyFileError(
                f"{path} is not a key: it has {len(key)} characters, not 40; copy the file again"
            )
        return key


def _refuse_writable(path: Path) -> os.stat_result:
    """Return the status of a file or folder. Raises KeyFileError where another user may change it."""
    status = path.stat()
    # In a folder with the sticky bit only owners may replace files.
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_mode & 0o022 and not sticky:
        raise KeyFileError(f"{path} can be written by others; chmod go-w {path}")
    if status.st_uid not in (0, os.geteuid()):
        raise KeyFileError(f"{path} belongs to user {status.st_uid}; it must be yours or root's")
    return status


def make_keys(folder: str | Path, clients: tuple[str, ...] = (DEFAULT_CLIENT,)) -> list[Path]:
    """Create the missing keys of a folder and return the key files written.

    Raises ValueError for an invalid name, KeyFileError for half of a pair; nothing is written then.
    """
    if SERVER in clients:
        raise ValueError(f"{SERVER!r} is the server's own name; a client needs another")
    folder = Path(folder)
    for name in (SERVER, *clients):
        _check(folder, name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    written = _make_pair(folder, SERVER)
    for client in clients:
        new = _make_pair(folder, client)
        written += new
        if new:
            _allow(folder, client)
    return written


def _check(folder: Path, name: str) -> None:
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"{name!r} is not a valid key name; use letters, digits, - and _")
    pair = public_path, secret_path = folder / f"{name}.public", folder / f"{name}.secret"
    existing = [path for path in pair if path.exists()]
    if len(existing) == 1:
        missing = secret_path if existing == [public_path] else public_path
        raise KeyFileError(
            f"{existing[0]} exists without {missing.name}; make the keys in the server's folder, "
            f"which has both files, or remove {existing[0].name} to make a new pair"
        )


def _make_pair(folder: Path, name: str) -> list[Path]:
    public_path, secret_path = folder / f"{name}.public", folder / f"{name}.secret"
    if public_path.exists():
        return []
    public, secret = zmq.curve_keypair()
    _write(secret_path, secret)
    _write(public_path, public)
    return [public_path, secret_path]


def _allow(folder: Path, client: str) -> None:
    path = folder / ALLOWED
    lines = path.read_text().splitlines() if path.exists() else []
    lines.append((folder / f"{client}.public").read_text() + f"  # {client}")
    _write(path, "".join(f"{line}\n" for line in lines).encode())


def _write(path: Path, content: bytes) -> None:
    """Replace a file atomically; it is never readable by others."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    temporary.replace(path)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m caraml.keys", description="Make CURVE keys for caraml sockets."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "clients", nargs="*", default=[DEFAULT_CLIENT], help="names of clients (default: client)"
    )
    options = parser.parse_args(arguments)
    try:
        written = make_keys(options.folder, tuple(options.clients))
    except (OSError, ValueError) as error:
        parser.exit(1, f"{error}\n")
    for path in written:
        print(path)
    if not written:
        print(f"{options.folder}: all keys exist already")


if __name__ == "__main__":
    main()
