"""The `'msgpack'` codec: encodes Python values and numpy arrays; decoding is safe for messages of any peer.

`encode(value)` returns the parts of a message, `decode(parts)` the value. Sockets with `serializer='msgpack'`
have an Encoder and a Decoder of their own.

>>> import numpy
>>> parts = encode({"step": 3, "frame": numpy.zeros((2, 2), "f4"), "pair": (1, "a")})
>>> decode(parts)["frame"].shape, decode(parts)["pair"]
((2, 2), (1, 'a'))

Messages can contain None, bool, int of up to 64 KiB, float, complex, str, bytes, list, tuple, dict; numpy
arrays and scalars of numpy's own dtypes but object, StringDType and those of zero bytes; dataclasses and
msgspec Structs. Subclasses of the built-in containers, bytearray and memoryview arrive as the built-in type
(bytes for the last two). Other values raise EncodeError.

A dataclass or Struct arrives as its class if the receiver has registered it (with `@register`, or by sending
one), else as a dict of its fields: a peer cannot name a class to import.

Arrays of 64 KiB and more are parts of their own, which the codec copies only if they are not contiguous; a
socket copies them once, when it sends them. Smaller ones are copied. All arrive aligned and writable.
"""

from collections.abc import Sequence

from caraml.codec.arrays import OUT_OF_BAND as OUT_OF_BAND
from caraml.codec.decode import Decoder as Decoder
from caraml.codec.encode import Encoder as Encoder
from caraml.codec.parts import Buffer as Buffer
from caraml.codec.parts import Parts as Parts
from caraml.codec.records import register as register


def encode(value: object) -> list[Buffer]:
    """Return the parts of a message; all but the first refer to the memory of arrays.

    Raises EncodeError, MessageTooLargeError.
    """
    encoded = Encoder().encode(value)
    return encoded if isinstance(encoded, Parts) else [encoded]


def decode(parts: Sequence[Buffer]) -> object:
    """Return the value of a message. Raises MalformedMessageError."""
    return Decoder().decode(parts[0], list(parts[1:])) if parts else Decoder().decode(b"", [])
