"""For any bytes, the codec gives a value or a MalformedMessageError, in bounded memory."""

import contextlib
import tracemalloc
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from caraml import codec
from caraml.errors import MalformedMessageError
from tests.caraml.codec.codec_values import Batch, Step, received

SEEDS = [
    {"a": np.zeros(3), "b": np.zeros((2, 2), "u1")},
    [1, (2, 3.5, None), {"k": b"v", (1, "a"): 2**70}, np.float32(1), np.zeros((2, 2), order="F"), 1j],
    Step(np.array(["2020"], "M8[D]")),
    Batch([(), [], {}], "n"),
    {"big": np.zeros(1 << 13)},
    [np.zeros(1 << 13), bytes(1 << 16), {"f": np.zeros((1 << 7, 1 << 7), order="F")}],
    {
        "s": np.zeros(3),
        "big": np.zeros((1 << 10, 1 << 4), order="F"),
        "records": np.zeros(1 << 13, "M8[s],f4"),
    },
]


def touch(value):
    """Read the whole value: an array that claims more memory than it has would fail here."""
    if isinstance(value, np.ndarray):
        assert value.nbytes < 1 << 24
        value.copy()
    elif isinstance(value, (list, tuple)):
        for item in value:
            touch(item)
    elif isinstance(value, dict):
        touch(list(value.values()))


def fuzz_one(data: bytes | bytearray, parts: Sequence[bytes | bytearray]) -> None:
    """The fuzz target: any bytes and parts are a value or a MalformedMessageError."""
    with contextlib.suppress(MalformedMessageError):
        touch(codec.Decoder().decode(data, [bytearray(part) for part in parts]))


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(st.binary(max_size=200), st.binary(max_size=100).map(lambda b: b"\xca\x01" + b)),
    st.lists(st.binary(max_size=64), max_size=2),
)
def test_any_bytes_are_a_value_or_malformed(data, parts):
    fuzz_one(data, parts)


def mutate(generator, message):
    data = bytearray(message)
    for _ in range(int(generator.integers(1, 6))):
        where = int(generator.integers(0, len(data)))
        match int(generator.integers(0, 4)):
            case 0:
                data[where] = int(generator.integers(0, 256))
            case 1:
                del data[where : where + int(generator.integers(1, 8))]
            case 2:
                data[where:where] = generator.bytes(int(generator.integers(1, 8)))
            case _:
                data[where] = int(generator.choice([0xFF, 0x91, 0xDF, 0xC9, 0x7F, 0xDD]))
        if not data:
            return b"\0"
    return bytes(data)


def mutate_parts(generator, parts):
    """Yield the parts with one of them longer, shorter, missing, doubled, or moved."""
    parts = list(parts)
    which = int(generator.integers(0, len(parts)))
    match int(generator.integers(0, 5)):
        case 0:
            parts[which] = parts[which] + generator.bytes(int(generator.integers(1, 64)))
        case 1:
            parts[which] = parts[which][: int(generator.integers(0, len(parts[which])))]
        case 2:
            del parts[which]
        case 3:
            parts.insert(which, parts[which])
        case _:
            parts = parts[which:] + parts[:which]
    return parts


@contextlib.contextmanager
def at_most(nbytes):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < nbytes
    finally:
        tracemalloc.stop()


def test_mutated_messages_are_a_value_or_malformed_in_bounded_memory():
    generator = np.random.default_rng(0)
    seeds = [received(codec.encode(seed)) for seed in SEEDS]
    with at_most(32 << 20):
        for n in range(6_000):
            message, *parts = seeds[n % len(seeds)]
            if parts and n % 2:
                parts = mutate_parts(generator, parts)
                fuzz_one(message if n % 4 == 1 else mutate(generator, message), parts)
            else:
                fuzz_one(mutate(generator, message), parts)
