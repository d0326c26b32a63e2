"""The classic serializers as functions of one value, by name.

>>> get_deserializer("json")(get_serializer("json")({"a": 1}))
{'a': 1}

The `pa_` functions have the names of the pyarrow serializers that caraml 0.10 had.
Sockets take the same names. For each name, also if its function itself is given, they use functions of
caraml.serializers in place of these: they check more, and pickles are signed.
"""

import json
import pickle
from collections.abc import Callable
from typing import Any, TypeAlias

from caraml import codec
from caraml.codec.parts import join, split

Function: TypeAlias = Callable[[Any], Any]


def pa_serialize(obj: object) -> bytes:
    """Serialize native types, dicts, lists and numpy arrays. Raises EncodeError."""
    return join(codec.encode(obj))


def pa_deserialize(binary: bytes) -> Any:
    """Deserialize the result of `pa_serialize`. Raises MalformedMessageError."""
    # Arrays must be writable: the parts that hold them are copied to bytearrays.
    return codec.decode(
        [bytearray(part) if index else bytes(part) for index, part in enumerate(split(binary))]
    )


def bytes2str(bytestring: bytes | str) -> str:
    """Decode UTF-8 bytes; return a str unchanged."""
    return bytestring if isinstance(bytestring, str) else bytestring.decode("UTF-8")


def str2bytes(string: str | bytes) -> bytes:
    """Encode a str as UTF-8; return bytes unchanged."""
    return string if isinstance(string, bytes) else string.encode("UTF-8")


def _unchanged(data: Any) -> Any:
    return data


def json_serialize(data: object) -> bytes:
    """Serialize as JSON, in UTF-8."""
    return json.dumps(data).encode("UTF-8")


def json_deserialize(data: bytes | str) -> Any:
    """Deserialize JSON."""
    return json.loads(bytes2str(data))


SERIALIZERS: dict[str, Function] = {
    "str": str2bytes,
    "pickle": pickle.dumps,
    "json": json_serialize,
    "pyarrow": pa_serialize,
    "msgpack": pa_serialize,
}
DESERIALIZERS: dict[str, Function] = {
    "str": bytes2str,
    "pickle": pickle.loads,
    "json": json_deserialize,
    "pyarrow": pa_deserialize,
    "msgpack": pa_deserialize,
}


def get_serializer(serializer: str | Function | None) -> Function:
    """Return the serializer with a name, or the given callable; for None, one that changes nothing.

    Raises:
        ValueError: The name is unknown.
    """
    return _get(serializer, SERIALIZERS)


def get_deserializer(deserializer: str | Function | None) -> Function:
    """Return the deserializer with a name, or the given callable; for None, one that changes nothing.

    Raises:
        ValueError: The name is unknown.
    """
    return _get(deserializer, DESERIALIZERS)


def _get(serializer: str | Function | None, named: dict[str, Function]) -> Function:
    if serializer is None:
        return _unchanged
    if isinstance(serializer, str) and serializer.lower() in named:
        return named[serializer.lower()]
    if callable(serializer):
        return serializer
    raise ValueError(
        f"serializer= and deserializer= take a callable or one of {', '.join(named)}, not {serializer!r}"
    )


def string_hash(s: str) -> str:
    """Return a 16-character hash of a str."""
    return binary_hash(s.encode("utf-8"))


def binary_hash(binary: bytes) -> str:
    """Return a 16-character hash of bytes, not for security."""
    import base64
    import hashlib  # slow to import, and rarely used

    return base64.b64encode(hashlib.md5(binary, usedforsecurity=False).digest())[:16].decode("utf-8")


def pyobj_hash(obj: object, serializer: str | Function | None) -> str:
    """Return a 16-character hash of a value's serialized form."""
    return binary_hash(get_serializer(serializer)(obj))
