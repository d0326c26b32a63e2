"""The codec: values survive encoding and decoding, and nothing else is sent or accepted."""

import struct
import subprocess
import sys
import tracemalloc
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from caraml import codec
from caraml.errors import EncodeError, MalformedMessageError
from caraml.limits import Limits
from tests.caraml.codec.codec_values import Batch, Step, raw, received

DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
    hnp.complex_number_dtypes(endianness="?"),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
    hnp.unicode_string_dtypes(max_len=5),
    hnp.byte_string_dtypes(max_len=5),
    st.just(np.dtype([("a", "f4"), ("b", "i2", (2,)), ("c", [("d", "M8[s]")])])),
    st.just(np.dtype({"names": ["a", "b"], "formats": ["u1", "f8"]}, align=True)),
)


SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


@st.composite
def arrays(draw):
    dtype = draw(DTYPES)
    size = np.empty(draw(SHAPES), dtype)
    raw = draw(st.binary(min_size=size.nbytes, max_size=size.nbytes))
    if dtype.kind in "US":  # any bytes are no text
        array = np.full(size.shape, "ab", dtype)
    else:
        array = np.frombuffer(raw, np.uint8).view(dtype).reshape(size.shape) if size.nbytes else size
    way = draw(st.sampled_from(["as is", "fortran", "transposed", "strided", "reversed"]))
    if way == "fortran":
        return np.asfortranarray(array)
    if way == "transposed":
        return array.T
    if way == "strided" and array.ndim:
        return array[::2]
    return array[::-1] if way == "reversed" and array.ndim else array


ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.complex_numbers(),
    arrays(),
    arrays()
    .filter(lambda array: array.size and array.dtype.kind != "V")
    .map(lambda array: array.reshape(-1)[0]),
)


KEYS = st.one_of(
    st.text(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
    st.binary(),
    st.tuples(st.text(), st.integers(0, 9), st.tuples(st.integers(0, 9))),
)


VALUES = st.recursive(
    ATOMS,
    lambda children: st.one_of(
        st.lists(children, max_size=4),
        st.lists(children, max_size=4).map(tuple),
        st.dictionaries(KEYS, children, max_size=4),
        st.builds(Step, observation=children, reward=st.floats()),
        st.builds(Batch, steps=st.lists(children, max_size=3), name=st.text()),
    ),
    max_leaves=12,
)


def assert_same(value, other):
    if isinstance(value, (np.ndarray, np.generic)):
        assert type(value) is type(other)
        assert value.dtype == other.dtype
        assert value.shape == other.shape
        if value.dtype.names:  # a copy does not keep what lies between fields
            assert repr(value.tolist()) == repr(other.tolist())
        else:
            assert np.ascontiguousarray(value).tobytes() == np.ascontiguousarray(other).tobytes()
        if isinstance(other, np.ndarray):
            assert other.flags.aligned
            assert other.flags.writeable
        return
    assert type(value) is type(other)
    if isinstance(value, dict):
        assert list(value) == list(other)
        for key in value:
            assert_same(value[key], other[key])
    elif isinstance(value, (list, tuple)):
        assert len(value) == len(other)
        for each, two in zip(value, other, strict=True):
            assert_same(each, two)
    elif isinstance(value, (Step, Batch)):
        for name in ("observation", "reward") if isinstance(value, Step) else ("steps", "name"):
            assert_same(getattr(value, name), getattr(other, name))
    elif isinstance(value, (float, complex)):
        assert repr(value) == repr(other)
    else:
        assert value == other


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
def test_encoded_values_decode_to_equal_values(value):
    assert_same(value, codec.decode(received(codec.encode(value))))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(), arrays(), max_size=5))
def test_dicts_of_arrays_decode_with_a_cached_layout(value):
    encoder, decoder = codec.Encoder(), codec.Decoder()
    for _ in range(2):
        encoded = encoder.encode(value)
        parts = received(encoded if isinstance(encoded, list) else [encoded])
        assert_same(value, decoder.decode(parts[0], parts[1:]))


def test_large_arrays_are_neither_copied_when_encoded_nor_when_decoded():
    value = {"a": np.zeros(1 << 22), "b": [np.zeros((1 << 10, 1 << 10), order="F")]}
    nbytes = value["a"].nbytes + value["b"][0].nbytes
    tracemalloc.start()
    try:
        parts = codec.encode(value)
        assert tracemalloc.get_traced_memory()[1] < 0.1 * nbytes
        assert np.shares_memory(parts[1], value["a"])
        assert np.shares_memory(parts[2], value["b"][0])
        arrived = received(parts)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        got: Any = codec.decode(arrived)
        assert tracemalloc.get_traced_memory()[1] - before < 0.1 * nbytes
        assert np.shares_memory(got["a"], np.frombuffer(arrived[1], np.uint8))
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, {2}]}, r"value\['a'\]\[1\]: set"),
        ({"a": np.array([object()])}, "object"),
        ((1, [Step(object())]), r"value\[1\]\[0\].observation: object"),
        ({frozenset(): 1}, "frozenset cannot be sent"),
        ("\ud800", "surrogates"),
        (1 << 600_000, "an int of 75001 bytes"),
        (np.zeros((1,) * 40), "40 dimensions"),
    ],
    ids=range(7),
)
def test_an_unsupported_value_is_an_error_with_its_path(value, where):
    with pytest.raises(EncodeError, match=where):
        codec.encode(value)


@pytest.mark.parametrize("dtype", ["|S0", "<U0", "|V0", f"[('a', '<f8'), ('b', '|S0', ({1 << 30},))]", "[]"])
def test_arrays_of_zero_byte_items_are_refused(dtype):
    """A message of 40 bytes once became an array of 2**40 items, which take memory when touched."""
    description = msgspec.msgpack.encode([dtype, [0 if dtype.startswith("[") else 1 << 40], "C"])
    layout = msgspec.msgpack.encode([("a", description)])
    body = msgspec.msgpack.encode(msgspec.msgpack.Ext(1, struct.pack("<I", len(description)) + description))
    for message in (b"\xca\x02" + struct.pack("<I", len(layout)) + layout, b"\xca\x01" + body):
        with pytest.raises(MalformedMessageError, match=r"no bytes|itemsize"):
            codec.decode([message])


def nested(depth: int, container: Any = lambda value: [value]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = container(value)
    return value


def test_limits_apply_to_decoding():
    small = Limits(message_bytes=1000)
    for value in ({"a": np.zeros(200)}, list(range(600)), ["x"] * 600):
        parts = received(codec.encode(value))
        with pytest.raises(MalformedMessageError):
            codec.Decoder(small).decode(memoryview(parts[0]), parts[1:])


@pytest.mark.parametrize(
    ("container", "most"),
    [(lambda value: [value], 400), (lambda value: {"a": value}, 400), (lambda value: (value,), 64)],
)
def test_a_value_that_is_nested_too_deep_is_refused_by_both_sides(container: Any, most: int):
    assert codec.decode(codec.encode(nested(most, container))) == nested(most, container)
    with pytest.raises(EncodeError):
        codec.encode(nested(2000, container))
    deep = b"\x91" * 100_000 + b"\x01"
    with pytest.raises(MalformedMessageError, match="recursion"):
        codec.decode([raw(codec.encode(1)[0])[:2] + deep])


def test_unregistered_records_arrive_as_dicts_of_their_fields():
    sender = """
import dataclasses, sys
from caraml import codec
@dataclasses.dataclass
class Secret:
    a: int
    b: list
sys.stdout.buffer.write(codec.encode([Secret(1, [2])])[0])
"""
    message = subprocess.run([sys.executable, "-c", sender], capture_output=True, check=True).stdout
    assert codec.decode([message]) == [{"a": 1, "b": [2]}]


def test_a_registered_record_with_other_fields_is_malformed():
    message = raw(codec.encode([Step(1)])[0])
    with pytest.raises(MalformedMessageError, match="fields"):
        codec.decode([message.replace(b"reward", b"reword")])
