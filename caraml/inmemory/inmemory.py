"""The classic names of in-memory hand-over, as in caraml 0.10, on the shared pool.

>>> shared = inmem_deserialize(inmem_serialize({"a": [1, 2]}))
>>> shared.data
{'a': [1, 2]}
>>> shared.delete()

A name is for one reader, and good as long as the process that made it lives.
"""

from typing import Any

from caraml.codec.joined import JOINED
from caraml.codec.parts import Parts
from caraml.inmemory.pool import Shared, SharedPool, get
from caraml.utils.serializer import pa_deserialize

_RAW = b"\xca\x08"
_pool = SharedPool()


def inmem_dump(data: Any, name: object = None) -> bytes:
    """Share bytes that are serialized already (`get_serializer('pyarrow')`) or plain; returns their name.

    `name` is accepted and ignored: names are made here.
    """
    return _pool.put_parts(Parts((_RAW, bytes(data))))


def inmem_serialize(data: object, name: object = None) -> bytes:
    """Share a value (see caraml.codec for which); returns its name. `name` is accepted and ignored."""
    return _pool.put(data)


def inmem_deserialize(name_bin: bytes) -> Shared:
    """What was shared under a name, in `data`, until `delete()`. Raises SharedMemoryError."""
    shared = get(name_bin, raw=_RAW)
    data: Any = shared.data
    if type(data) is memoryview and bytes(data[:2]) == JOINED:
        shared.data = pa_deserialize(data.tobytes())
    return shared
