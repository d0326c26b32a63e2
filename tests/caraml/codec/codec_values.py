"""Records, and messages as a socket receives them, for the tests of the codec."""

import dataclasses
from typing import Any

import msgspec

from caraml import codec


@codec.register
@dataclasses.dataclass
class Step:
    observation: object
    reward: float = 0.0


@codec.register
class Batch(msgspec.Struct):
    steps: list
    name: str = ""


def raw(part: Any) -> bytes:
    return bytes(memoryview(part))


def received(parts: Any) -> Any:
    """Return the parts as a socket receives them: the first as bytes, the others as separate buffers."""
    return [raw(parts[0])] + [bytearray(memoryview(part).cast("B")) for part in parts[1:]]
