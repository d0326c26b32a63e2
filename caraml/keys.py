"""`python -m caraml.keys FOLDER [CLIENT ...]`: makes a key folder, or adds clients to one.

The folder is 0700, every secret 0600. Existing keys are kept; half of a pair stops everything. Copy to a
client only `server.public` and its own two files; a server needs `server.*` and `allowed`.
"""

import argparse
import os
from pathlib import Path

import zmq

from caraml.errors import KeyFileError
from caraml.key_folder import ALLOWED, DEFAULT_CLIENT

SERVER = "server"


def make_keys(folder: str | Path, clients: tuple[str, ...] = (DEFAULT_CLIENT,)) -> list[Path]:
    """Make what is missing of a key folder; returns the files written.

    Raises ValueError for a name that cannot be one, KeyFileError for half a pair: nothing is written then.
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
        made = _make_pair(folder, client)
        written += made
        if made:
            _allow(folder, client)
    return written


def _check(folder: Path, name: str) -> None:
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"{name!r} is not a valid key name; use letters, digits, - and _")
    pair = public_path, secret_path = folder / f"{name}.public", folder / f"{name}.secret"
    there = [path for path in pair if path.exists()]
    if len(there) == 1:
        missing = secret_path if there == [public_path] else public_path
        raise KeyFileError(
            f"{there[0]} exists without {missing.name}; make keys in the server's folder, where both are, "
            f"or remove it for a new pair"
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
    known = path.read_text() if path.exists() else ""
    _write(path, (known + (folder / f"{client}.public").read_text() + f"  # {client}\n").encode())


def _write(path: Path, content: bytes) -> None:
    """Write whole or not at all, readable by the owner from the first byte."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    temporary.replace(path)


def main(arguments: list[str] | None = None) -> None:
    """The command."""
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
