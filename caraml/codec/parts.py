"""The parts of one message and the marks that tell kinds of messages apart."""

import builtins
from typing import Any, TypeAlias

import numpy as np
import zmq

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
    """The bytes of a part, without a copy."""
    memory: Any = part.buffer if isinstance(part, (zmq.Frame, Inline)) else part
    return memoryview(memory).cast("B")


def size(part: Buffer) -> int:
    """Bytes in a part."""
    return part.nbytes if isinstance(part, (np.ndarray, memoryview)) else len(part)


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
