"""For any bytes, the codec gives a value or a MalformedMessageError."""

import contextlib

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


ENCODED = [received(codec.encode(seed)) for seed in SEEDS]


@st.composite
def damaged_messages(draw):
    """Draw a message of which some bytes are others, and parts are missing, moved or too many."""
    head, *parts = draw(st.sampled_from(ENCODED))
    head = bytearray(head)
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(head)))
        head[start : start + draw(st.integers(0, 8))] = draw(st.binary(max_size=8))
    return bytes(head), draw(
        st.lists(st.one_of(st.sampled_from([b"", *parts]), st.binary(max_size=64)), max_size=3)
    )


@settings(max_examples=600, deadline=None)
@given(
    st.one_of(
        damaged_messages(),
        st.tuples(st.binary(max_size=200), st.lists(st.binary(max_size=64), max_size=2)),
        st.tuples(st.binary(max_size=100).map(lambda body: b"\xca\x01" + body), st.just([])),
    )
)
def test_any_bytes_are_a_value_or_malformed(message):
    head, parts = message
    with contextlib.suppress(MalformedMessageError):
        touch(codec.Decoder().decode(head, [bytearray(part) for part in parts]))
