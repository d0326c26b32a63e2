"""The `'pickle'` codec: protocol 5, large buffers uncopied, loaded only from peers that may run code here.

Loading a pickle runs code that it names. A socket loads one only if its program asked for `'pickle'` and

* the transport admits no other user: inproc, or CURVE with an allow-list (`keys=`); or
* the pickle is signed with a key that this process has too: CARAML_PICKLE_KEY in the environment (any text of
  16 characters or more, the same on every host), else a file of this user's own (0600, made on first use), so
  that the programs of one user on one machine need no setting; or
* it came over an ipc path (0600, this user's) and this user's key file can be neither made nor used. Where
  there is a key, ipc is signed as well: another user may bind a path in a shared folder first.

Any other pickle is a malformed message: counted and dropped, never loaded. **Hosts, containers or pods
without a shared home folder have different key files, and refuse the pickles of the others: set
CARAML_PICKLE_KEY to the same secret for all of them**, or use `keys=`, or 'msgpack'.

The signature covers the pickle, not the bulk of its arrays (which cannot run anything), and does not stop a
listener on the network from repeating a message: across hosts use `keys=`.
"""

import contextlib
import hashlib
import hmac
import os
import pickle
import secrets
import stat
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from caraml.codec.arrays import OUT_OF_BAND
from caraml.codec.parts import PICKLE, Buffer, Parts, size, view
from caraml.errors import MalformedMessageError, PickleRefusedError, UnsignedPickleError
from caraml.limits import MAX_PARTS

KEY_VARIABLE = "CARAML_PICKLE_KEY"
_KEY_BYTES = 32
_TAG_BYTES = 32
_SHORTEST_KEY = 16


def pickle_codec(
    address: str, trusted: bool, key: bytes | None = None
) -> tuple[Callable[[Any], bytes | Parts], Callable[[Any, Any], Any]]:
    """Return the functions that encode and decode for a socket; `key` replaces the one described above.

    Raises PickleRefusedError where a key is needed and there is none.
    """
    key = key or (None if trusted else _key_for(address))
    signer = None if key is None else hashlib.blake2b(key=key, digest_size=_TAG_BYTES)
    start = PICKLE + bytes((0 if signer is None else _TAG_BYTES,))

    def encode(value: object) -> bytes | Parts:
        buffers: list[Buffer] = []

        def keep_in_band(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < OUT_OF_BAND or len(buffers) + 2 > MAX_PARTS:
                return True
            buffers.append(raw)
            return False

        stream = pickle.dumps(value, protocol=5, buffer_callback=keep_in_band)
        head = start + (b"" if signer is None else _tag(signer, stream, buffers)) + stream
        return Parts((head, *buffers)) if buffers else head

    def decode(head: Buffer, rest: Sequence[Buffer]) -> Any:
        message = head if type(head) is bytes else view(head)
        if message[:2] != PICKLE or len(message) < 3:
            raise MalformedMessageError(
                f"{address}: refused a message that caraml's serializer='pickle' did not make;"
                " use the same serializer on both sides"
            )
        begin = 3 + message[2]
        stream = message[begin:]
        if signer is not None and not hmac.compare_digest(_tag(signer, stream, rest), message[3:begin]):
            raise UnsignedPickleError(
                f"{address}: a pickle not signed with our key: refused. The sender has another "
                f"key, or none: set {KEY_VARIABLE} to the same secret for both, use keys=, or "
                "serializer='msgpack'"
            )
        try:
            return pickle.loads(stream, buffers=[view(part) for part in rest] if rest else None)
        except Exception as error:  # unpickling runs the constructors of the sender's classes
            what = f"a message cannot be unpickled: {type(error).__name__}: {error}"
            raise MalformedMessageError(f"{address}: {what}") from error

    return encode, decode


def _tag(signer: Any, stream: bytes | memoryview, buffers: Sequence[Buffer] = ()) -> bytes:
    """Return the signature; `signer` is a BLAKE2b initialized with the key."""
    signing = signer.copy()
    if buffers:
        signing.update(struct.pack(f"<{len(buffers)}Q", *map(size, buffers)))
    signing.update(stream)
    return signing.digest()


def _key_for(address: str) -> bytes | None:
    try:
        return signing_key(address)
    except PickleRefusedError:
        # An abstract socket, ipc://@NAME, is no file whose mode excludes other users.
        is_private = address.startswith("ipc://") and not address.startswith("ipc://@")
        if is_private and KEY_VARIABLE not in os.environ:
            return None
        raise


def signing_key(address: str) -> bytes:
    """Return the key of the environment, else this user's own. Raises PickleRefusedError."""
    text = os.environ.get(KEY_VARIABLE)
    if text is not None:
        if len(text) < _SHORTEST_KEY:
            raise PickleRefusedError(f"{KEY_VARIABLE} is shorter than {_SHORTEST_KEY} characters")
        return hashlib.blake2b(text.encode(), digest_size=_KEY_BYTES).digest()
    try:
        return _own_key()
    except (OSError, RuntimeError) as error:
        raise PickleRefusedError(
            f"{address}: pickle runs code, and there is no key to sign it with ({error}); "
            f"set {KEY_VARIABLE}, use keys=, or serializer='msgpack'"
        ) from error


def _own_key() -> bytes:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "caraml" / "pickle.key"
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f"pickle.key.{os.getpid()}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with contextlib.suppress(FileExistsError):  # of two processes that start together, one wins
            os.link(temporary, path)
        temporary.unlink()
    status = path.stat()
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionError(f"{path} must be owned by this user and have mode 600")
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} is not a key")
    return key
