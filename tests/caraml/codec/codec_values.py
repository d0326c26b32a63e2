"""Records, and messages as a socket receives them, for the tests of the codec."""

import dataclasses

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


def received(parts):
    """As from a socket: the first part bytes, others memory of their own."""
    return [bytes(memoryview(parts[0]))] + [bytearray(memoryview(part).cast("B")) for part in parts[1:]]
