"""Passes values between processes of one host through shared memory: see `caraml.inmemory.pool`."""

from typing import Any

from caraml.codec.parts import JOINED, Parts
from caraml.inmemory.pool import Shared as Shared
from caraml.inmemory.pool import SharedPool as SharedPool
from caraml.inmemory.pool import get as get
from caraml.utils.serializer import pa_deserialize

SharedMemoryObject = Shared
_RAW = b"\xca\x08"  # the head of bytes that are shared as they are
_pool = SharedPool()


def inmem_dump(data: Any, name: object = None) -> bytes:
    """Share bytes, plain or from `get_serializer('pyarrow')`, and return their name; `name` is ignored."""
    return _pool.put_parts(Parts((_RAW, bytes(data))))


def inmem_serialize(data: object, name: object = None) -> bytes:
    """Share a value that caraml.codec can encode, and return its name; `name` is ignored."""
    return _pool.put(data)


def inmem_deserialize(name_bin: bytes) -> Shared:
    """Return the shared value of a name: `.data`, until `.delete()`. Raises SharedMemoryError."""
    shared = get(name_bin, raw=_RAW)
    data: Any = shared.data
    if type(data) is memoryview and bytes(data[:2]) == JOINED:
        shared.data = pa_deserialize(data.tobytes())
    return shared
