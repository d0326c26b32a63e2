"""The parts of one message and the marks that tell kinds of messages apart."""

import builtins
from typing import Any, TypeAlias

import numpy as np
import zmq

from caraml.errors import EncodeError

Buffer: TypeAlias = bytes | bytearray | memoryview | np.ndarray[Any, np.dtype[Any]] | zmq.Frame

MAGIC = 0xCA
TREE = bytes((MAGIC, 1))
ARRAYS = bytes((MAGIC, 2))
BATCH = bytes((MAGIC, 3))
PICKLE = bytes((MAGIC, 4))
FAILURE = bytes((MAGIC, 5))


class Parts(list[Buffer]):
    """A message of several frames; its own type, so that a list given by mistake is never sent as one."""

    __slots__ = ()


def view(part: "Buffer | Inline") -> memoryview:
    """Return the bytes of a part, without a copy. Raises EncodeError."""
    memory: Any = part.buffer if isinstance(part, (zmq.Frame, Inline)) else part
    try:
        return memoryview(memory).cast("B")
    except TypeError:
        raise _needs_serializer(part) from None


def size(part: Buffer) -> int:
    """Return the bytes in a part. Raises EncodeError."""
    if type(part) is bytes:
        return len(part)
    return part.nbytes if isinstance(part, (np.ndarray, memoryview)) else view(part).nbytes


def _needs_serializer(value: object) -> EncodeError:
    name = "str" if isinstance(value, str) else "msgpack"
    kind = type(value).__name__
    return EncodeError(f"a {kind} cannot be sent without a serializer; use serializer={name!r}")


class Inline:
    """A message that came inside another frame, with the two properties of a zmq.Frame that decoders use."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    @property
    def bytes(self) -> builtins.bytes:
        """A copy, or the bytes themselves."""
        data = self._data
        return data if isinstance(data, builtins.bytes) else data.tobytes()

    @property
    def buffer(self) -> memoryview:
        """A view."""
        return memoryview(self._data)
