"""Encodes values to message parts.

There are two forms. A dict that holds only arrays (an observation, a batch, parameters) is `ARRAYS`: its
layout, which is cached, and the small arrays one after the other. All other values are `TREE`: msgpack with
extensions. In both, arrays of 64 KiB and more are parts of their own.
"""

import enum
import struct
from operator import attrgetter
from typing import Any

import msgpack  # pyright: ignore[reportMissingTypeStubs]
import msgspec
import numpy as np

from caraml.codec import records, structure
from caraml.codec.arrays import OUT_OF_BAND, REMEMBERED, Array, describe, flat_bytes, order_of
from caraml.codec.parts import ARRAYS, TREE, Buffer, Parts
from caraml.codec.structure import is_over_limit
from caraml.errors import EncodeError, MessageTooLargeError
from caraml.limits import MAX_DEPTH, MAX_HEADER_BYTES

_ATOMS = frozenset({type(None), bool, int, float, str})
_PLAIN_KINDS = frozenset("biufc")
_shape_key = attrgetter("dtype", "shape", "strides", "__class__")
_untyped: Any = msgpack
Packer, ExtType = _untyped.Packer, _untyped.ExtType
_pack = msgspec.msgpack.Encoder().encode
# The errors of the packer for values that it cannot pack.
_REFUSALS = (BufferError, OverflowError, RecursionError, TypeError, ValueError)


class _ArraysPlan:
    """The head of messages with one layout, and the names of inline arrays and of those with a part."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        packed = _pack([(name, _description(array)) for name, array in arrays.items()])
        self.head = ARRAYS + struct.pack("<I", len(packed)) + packed
        self.out_of_band = tuple(name for name, array in arrays.items() if array.nbytes >= OUT_OF_BAND)
        self.inline = tuple(name for name in arrays if name not in self.out_of_band)
        plain = all(
            array.flags.c_contiguous and array.dtype.kind in _PLAIN_KINDS for array in arrays.values()
        )
        self.all_inline = plain and not self.out_of_band
        self.plain = plain and all(_can_be_cast(arrays[name]) for name in self.out_of_band)


def _description(array: Array) -> bytes:
    """Return the description of an array; one that is copied into the first part is in C order there."""
    return describe(array.dtype, array.shape, order_of(array) if array.nbytes >= OUT_OF_BAND else "C")


def _can_be_cast(array: Any) -> bool:
    """Return whether a memoryview can cast the array to bytes: not dates, empty or non-contiguous arrays."""
    try:
        memoryview(array).cast("B")
        return True
    except (TypeError, ValueError):
        return False


_NOT_CACHED = _ArraysPlan({})  # stands for a missing entry: None is an entry, too


class Encoder:
    """Encodes values, in any thread; the socket checks the size of the message."""

    def __init__(self) -> None:
        self._plans: dict[object, _ArraysPlan | None] = {}
        self._trees: list[_Tree] = []  # those not in use: each thread that encodes now has one

    def encode(self, value: object) -> bytes | Parts:
        """Return one frame as bytes, or Parts. Raises EncodeError, MessageTooLargeError."""
        if type(value) is not dict:
            return self._tree(value)
        mapping: dict[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        arrays = mapping.values()
        if type(next(iter(arrays), None)) in _ATOMS:  # the dict holds other values than arrays
            return self._tree(mapping)
        try:
            key = (*mapping, *map(_shape_key, arrays))
            plan = self._plans.get(key, _NOT_CACHED)
            if plan is _NOT_CACHED:
                plan = self._plan(key, mapping)
        except (AttributeError, TypeError):  # the dict holds other values than arrays
            return self._tree(mapping)
        if plan is None:
            return self._tree(mapping)
        return b"".join((plan.head, *arrays)) if plan.all_inline else self._arrays(plan, mapping)

    def _plan(self, key: object, value: dict[Any, Any]) -> _ArraysPlan | None:
        if len(self._plans) >= REMEMBERED:
            self._plans.clear()
        plan = None
        if value and all(type(name) is str and type(array) is np.ndarray for name, array in value.items()):
            try:
                plan = _ArraysPlan(value)
            except (TypeError, ValueError, UnicodeEncodeError) as error:
                raise EncodeError(f"{_path_of_first_fault(value)}: {error}") from None
            if len(plan.head) > MAX_HEADER_BYTES:
                return None
        self._plans[key] = plan
        return plan

    def _arrays(self, plan: _ArraysPlan, value: dict[str, Array]) -> bytes | Parts:
        inline: Any
        if plan.plain:
            inline = map(value.__getitem__, plan.inline)
            parts = Parts((b"".join((plan.head, *inline)),))
            for name in plan.out_of_band:
                array: Any = value[name]
                parts.append(memoryview(array).cast("B"))
            return parts
        inline = [value[name].tobytes() for name in plan.inline]
        head = b"".join((plan.head, *inline))
        if not plan.out_of_band:
            return head
        return Parts((head, *[flat_bytes(value[name]) for name in plan.out_of_band]))

    def _tree(self, value: object) -> bytes | Parts:
        try:
            tree = self._trees.pop()
        except IndexError:
            tree = _Tree()
        try:
            body, parts = tree.encode(value)
        except EncodeError as error:
            raise type(error)(f"{_path_of_first_fault(value)}: {error}") from None
        except _REFUSALS as error:
            raise EncodeError(str(error)) from None
        if len(body) < OUT_OF_BAND:  # a packer keeps the memory of its largest message
            self._trees.append(tree)
        if len(body) > MAX_HEADER_BYTES and is_over_limit(body):
            raise MessageTooLargeError(
                f"the value has more than {MAX_HEADER_BYTES} bytes without arrays, bytes and long strings; "
                "put large data into numpy arrays"
            )
        return Parts((TREE + body, *parts)) if parts else TREE + body


class _Tree:
    """Encodes TREE messages, one at a time.

    msgpack's packer walks the value in C and, as it is strict, asks `_extension` for each object that is not
    exactly of a type of msgpack. The encoder of msgspec is faster, but sends a tuple as a list and an Enum as
    its value, silently.
    """

    def __init__(self) -> None:
        self._parts: list[Buffer] = []
        # A packer for each level of extensions: a packer cannot be used while it packs.
        self._packers: list[Any] = []
        self._level = 0

    def encode(self, value: object) -> tuple[bytes, list[Buffer]]:
        """Return the packed value and its parts. Raises EncodeError and _REFUSALS."""
        self._parts = []
        body = self.pack(value)
        parts, self._parts = self._parts, []
        return body, parts

    def pack(self, value: object) -> bytes:
        """Pack a value, or the content of an extension."""
        if self._level == len(self._packers):
            if self._level > MAX_DEPTH:
                raise EncodeError(
                    f"tuples or records that are nested deeper than {MAX_DEPTH} levels cannot be sent"
                )
            self._packers.append(Packer(strict_types=True, default=self._extension, buf_size=4096))
        packer = self._packers[self._level]
        self._level += 1
        try:
            return packer.pack(value)
        finally:
            self._level -= 1

    def _extension(self, value: Any) -> object:
        """Return what msgpack packs instead of a value. Raises EncodeError."""
        kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, tuple):
            return ExtType(structure.TUPLE, self.pack(list(value)))  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, np.ndarray):
            return self._array(value)  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, np.generic):
            scalar: Array = np.asarray(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return ExtType(structure.SCALAR, _describe(scalar) + scalar.tobytes())
        if kind is complex:
            return ExtType(structure.COMPLEX, struct.pack("<dd", value.real, value.imag))
        if isinstance(value, enum.Enum):
            raise EncodeError("an Enum cannot be sent; send its .value")
        fields = records.fields_of(value)
        if fields is not None:
            return ExtType(structure.RECORD, self.pack([records.record_name(kind), fields]))
        if isinstance(value, int):
            number = int(value)
            if -(1 << 63) <= number < 1 << 64:
                return number
            nbytes = number.bit_length() // 8 + 1
            if nbytes > 1 << 16:
                raise EncodeError(f"an int of {nbytes} bytes cannot be sent; the maximum is {1 << 16}")
            return ExtType(structure.INTEGER, number.to_bytes(nbytes, "little", signed=True))
        bases: tuple[Any, ...] = (dict, list, str, float, bytes)
        for base in bases:
            if isinstance(value, base):
                return base(value)
        raise EncodeError(f"{kind.__name__} cannot be sent; the caraml.codec docstring lists what can")

    def _array(self, array: Array) -> object:
        if array.nbytes < OUT_OF_BAND:
            return ExtType(structure.ARRAY, _describe(array) + array.tobytes())
        array = np.asarray(array)
        head = _describe(array)
        self._parts.append(flat_bytes(array))
        return ExtType(structure.ARRAY_PART, head)


def _describe(array: Array) -> bytes:
    try:
        description = _description(array)
    except (TypeError, ValueError) as error:
        raise EncodeError(str(error)) from None
    return struct.pack("<I", len(description)) + description


def _path_of_first_fault(value: Any, path: str = "value") -> str:
    """Return the path to the first part of `value` that cannot be sent."""
    if len(path) > 200:
        return path + "..."
    children: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        children = [(f"{path}[{key!r}]", item) for key, item in value.items()]  # pyright: ignore[reportUnknownVariableType]
    elif isinstance(value, (list, tuple)):
        children = [(f"{path}[{index}]", item) for index, item in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    elif (fields := records.fields_of(value)) is not None:
        children = [(f"{path}.{name}", item) for name, item in fields.items()]
    tree = _Tree()
    for child_path, child in children:
        try:
            tree.encode(child)
        except EncodeError:
            return _path_of_first_fault(child, child_path)
        except _REFUSALS:
            continue
    return path
