"""Decodes message parts to values.

The parts may come from a hostile peer. Only registered classes are called, nothing is imported, and all sizes
are checked against the bytes that have arrived. Every fault is a MalformedMessageError.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import zmq

from caraml.codec import records, structure
from caraml.codec.arrays import (
    OUT_OF_BAND,
    REMEMBERED,
    REMEMBERED_BYTES,
    Array,
    Layout,
    order_of,
    read_layout,
)
from caraml.codec.parts import ARRAYS, TREE, Buffer, Inline, size, view
from caraml.codec.structure import is_over_limit
from caraml.errors import MalformedMessageError
from caraml.limits import (
    DEFAULT_LIMITS,
    MAX_DEPTH,
    MAX_HEADER_BYTES,
    MAX_PARTS,
    Limits,
)

_HEAD = 6
_FRAMES = (zmq.Frame, Inline)
_ndarray = np.ndarray
_unpack = msgspec.msgpack.decode
_layout_decoder = msgspec.msgpack.Decoder(list[tuple[str, bytes]])


class _ArraysPlan(NamedTuple):
    """The validated layout of a dict of arrays: positions of inline arrays, and layouts of the parts."""

    inline: list[tuple[str, tuple[int, ...], np.dtype[Any], int, int]]
    parts: list[tuple[str, Layout]]
    names: list[str]
    end: int


_INLINE, _PARTS, _END = 0, 1, 3  # indexes are faster than attributes


class Decoder:
    """Decodes messages, in any thread."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        # A message of at most this size meets all limits.
        self._unchecked_bytes = min(limits.message_bytes, MAX_HEADER_BYTES)
        self._plans: dict[bytes, _ArraysPlan] = {}
        self._single_arrays: dict[bytes, Layout] = {}  # by the head of a message that is one array

    def decode(self, head: Buffer, parts: Sequence[Buffer] = ()) -> Any:
        """Return the value; large arrays refer to `parts` if these are writable.

        Raises MalformedMessageError.
        """
        try:
            if type(head) is bytes and head[:2] == ARRAYS and not parts:
                body = _HEAD + int.from_bytes(head[2:_HEAD], "little")
                plan = self._plans.get(head[_HEAD:body])
                if plan is not None and plan[_END] == len(head) and not plan[_PARTS]:
                    source = bytearray(head)
                    return {
                        name: _ndarray(shape, dtype, source[start:stop])
                        for name, shape, dtype, start, stop in plan[_INLINE]
                    }
            elif (
                type(head) is bytes and not parts and head[:2] == TREE and len(head) <= self._unchecked_bytes
            ):
                return _Tree(parts).value(memoryview(head)[2:])
            if (
                type(head) is bytes
                and len(parts) == 1
                and (layout := self._single_arrays.get(head)) is not None
            ):
                return _array_of(parts[0], layout)
            return self._decode_checked(head, parts)
        except MalformedMessageError:
            raise
        except (
            ValueError,
            TypeError,
            struct.error,
            msgspec.MsgspecError,
            RecursionError,
            OverflowError,
        ) as error:
            raise MalformedMessageError(f"malformed message: {error}") from None
        except MemoryError:
            raise MalformedMessageError("not enough memory to decode the message") from None

    def _decode_checked(self, head: Buffer, parts: Sequence[Buffer]) -> Any:
        head_view = view(head)
        total = len(head_view) + sum(map(size, parts))
        if total > self._limits.message_bytes or 1 + len(parts) > MAX_PARTS:
            raise MalformedMessageError(
                f"cannot decode a message of {total} bytes in {1 + len(parts)} parts; the maximum is"
                f" {self._limits.message_bytes} bytes (Limits.message_bytes) in {MAX_PARTS} parts"
            )
        prefix = bytes(head_view[:2])
        if prefix == ARRAYS:
            return self._arrays(head_view, parts)
        if prefix != TREE:
            raise MalformedMessageError(f"not from caraml's msgpack serializer: it begins with {prefix!r}")
        if len(head_view) > MAX_HEADER_BYTES and is_over_limit(bytes(head_view[2:])):
            raise MalformedMessageError(
                f"a received message has more than {MAX_HEADER_BYTES} bytes besides its arrays, bytes and"
                " long strings"
            )
        value = _Tree(parts).value(head_view[2:])
        if type(value) is _ndarray and parts and len(head_view) <= REMEMBERED_BYTES:
            if len(self._single_arrays) >= REMEMBERED:
                self._single_arrays.clear()
            layout = Layout(value.dtype, value.shape, order_of(value), value.nbytes)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            self._single_arrays[bytes(head_view)] = layout
        return value  # pyright: ignore[reportUnknownVariableType]

    def _arrays(self, head: memoryview, parts: Sequence[Buffer]) -> dict[str, Array]:
        body = _HEAD + int.from_bytes(head[2:_HEAD], "little")
        packed = bytes(head[_HEAD:body])
        plan = self._plans.get(packed) or self._plan(packed, body)
        if len(head) != plan.end or len(parts) != len(plan.parts):
            raise MalformedMessageError(
                f"the message has {len(head)} bytes and {len(parts)} parts, "
                f"but its layout declares {plan.end} and {len(plan.parts)}"
            )
        arrays: dict[str, Array] = {
            name: _ndarray(shape, dtype, bytearray(head[start:stop]))
            for name, shape, dtype, start, stop in plan.inline
        }
        if not parts:
            return arrays
        for (name, layout), part in zip(plan.parts, parts, strict=True):
            arrays[name] = _array_of(part, layout)
        return {name: arrays[name] for name in plan.names}

    def _plan(self, packed: bytes, body: int) -> _ArraysPlan:
        if len(packed) > MAX_HEADER_BYTES:
            raise MalformedMessageError(
                f"a received message has a header of {len(packed)} bytes; the maximum is {MAX_HEADER_BYTES}"
            )
        plan = _ArraysPlan([], [], [], 0)
        end = body
        for name, description in _layout_decoder.decode(packed):
            layout = read_layout(description)
            plan.names.append(name)
            if layout.nbytes >= OUT_OF_BAND:
                plan.parts.append((name, layout))
            else:
                plan.inline.append((name, layout.shape, layout.dtype, end, end := end + layout.nbytes))
        if len(set(plan.names)) != len(plan.names):
            raise ValueError("the header of the message has the same key twice")
        plan = plan._replace(end=end)
        if len(packed) <= REMEMBERED_BYTES:
            if len(self._plans) >= REMEMBERED:
                self._plans.clear()
            self._plans[packed] = plan
        return plan


class _Tree:
    """Decodes one TREE message and counts the parts it refers to."""

    def __init__(self, parts: Sequence[Buffer]) -> None:
        self._depth = 0
        self._parts = parts
        self._parts_used = 0

    def value(self, body: memoryview) -> Any:
        """Return the value. Raises MalformedMessageError, ValueError and the errors of msgspec."""
        value = self._unpack(body)
        if self._parts_used != len(self._parts):
            raise MalformedMessageError(
                f"the message is damaged: {len(self._parts)} parts follow the first, which refers to"
                f" {self._parts_used}"
            )
        return value

    def _unpack(self, body: memoryview) -> Any:
        return _unpack(body, ext_hook=self._extension)

    def _extension(self, code: int, data: memoryview) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH and code in (structure.TUPLE, structure.RECORD):
            raise MalformedMessageError(
                f"the message came with tuples or records nested deeper than {MAX_DEPTH} levels"
            )
        try:
            return self._extension_value(code, data)
        finally:
            self._depth -= 1

    def _extension_value(self, code: int, data: memoryview) -> Any:
        if code == structure.ARRAY:
            layout, start = self._layout(data)
            return _array_of(bytearray(data[start:]), layout)
        if code == structure.ARRAY_PART:
            layout, start = self._layout(data)
            if start != len(data):
                raise ValueError("bytes follow the description of an array")
            return _array_of(self._part(), layout)
        if code == structure.SCALAR:
            layout, start = self._layout(data)
            return _array_of(
                bytearray(data[start:]), layout._replace(shape=(), nbytes=layout.dtype.itemsize)
            )[()]
        if code == structure.TUPLE:
            items = self._unpack(data)
            if type(items) is not list:
                raise ValueError("not a tuple")
            return tuple(items)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return self._rare_value(code, data)

    def _rare_value(self, code: int, data: memoryview) -> Any:
        if code == structure.RECORD:
            record = self._unpack(data)
            match record:
                case [str() as name, dict()]:
                    return _build(name, record[1])  # pyright: ignore[reportArgumentType]
                case _:
                    raise ValueError("a record is malformed")
        if code == structure.INTEGER:
            if len(data) > 1 << 16:
                raise ValueError(f"an integer has {len(data)} bytes; the maximum is {1 << 16}")
            return int.from_bytes(data, "little", signed=True)
        if code == structure.COMPLEX:
            return complex(*struct.unpack("<dd", data))
        raise ValueError(f"msgpack extension {code} is unknown")

    def _layout(self, data: memoryview) -> tuple[Layout, int]:
        start = 4 + int.from_bytes(data[:4], "little")
        if start > len(data):
            raise ValueError("the description of an array is cut short")
        return read_layout(bytes(data[4:start])), start

    def _part(self) -> Buffer:
        if self._parts_used >= len(self._parts):
            raise ValueError("the message lacks a part")
        self._parts_used += 1
        return self._parts[self._parts_used - 1]


def _build(name: str, fields: dict[Any, Any]) -> object:
    try:
        return records.build(name, fields)
    except Exception as error:  # a record's __init__ may raise any error
        raise MalformedMessageError(f"{name}: {error}") from None


def _array_of(part: Buffer, layout: Layout) -> Array:
    """Return an array over the part, which is copied if it is read-only or unaligned."""
    memory: Any = part.buffer if isinstance(part, _FRAMES) else part
    dtype, shape, order, nbytes = layout
    if size(part) != nbytes:
        raise MalformedMessageError(f"a part has {size(part)} bytes, but its array has {nbytes}")
    if nbytes == 0:
        return np.empty(shape, dtype, "F" if order == "F" else "C")
    array: Array = _ndarray(shape, dtype, memory, 0, None, "F" if order == "F" else "C")
    flags = array.flags
    if flags.writeable and flags.aligned:
        return array
    return array.copy("K")
