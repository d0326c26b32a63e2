"""Encodes values to message parts.

There are two forms. A dict that holds only arrays (an observation, a batch, parameters) is `ARRAYS`: its
layout, which is cached, and the small arrays one after the other. All other values are `TREE`: msgpack with
extensions. In both, arrays and bytes of 64 KiB and more are parts of their own.
"""

import enum
import struct
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from caraml.codec import records, structure
from caraml.codec.arrays import OUT_OF_BAND, REMEMBERED, Array, describe, flat_bytes, order_of
from caraml.codec.parts import ARRAYS, TREE, Buffer, Parts, size
from caraml.codec.structure import is_over_limit
from caraml.errors import EncodeError, MessageTooLargeError
from caraml.limits import MAX_DEPTH, MAX_HEADER_BYTES

_ATOMS = frozenset({type(None), bool, int, float, str})
_KEYS = frozenset({type(None), bool, int, float, str, bytes})
_PLAIN_KINDS = frozenset("biufc")
_shape_key = attrgetter("dtype", "shape", "strides", "__class__")
_pack = msgspec.msgpack.Encoder().encode


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
    """Return whether a memoryview accepts the array, unlike dates, empty arrays and strides."""
    try:
        memoryview(array).cast("B")
        return True
    except (TypeError, ValueError):
        return False


def _is_flat(value: dict[Any, Any]) -> bool:
    """Return whether msgspec packs the dict as it is: each value a number, text, bool or None."""
    return _KEYS.issuperset(map(type, value)) and _ATOMS.issuperset(map(type, value.values()))


_NOT_CACHED = _ArraysPlan({})  # stands for a missing entry: None is an entry, too


class Encoder:
    """Encodes values, in any thread; the socket checks the size of the message."""

    def __init__(self) -> None:
        self._plans: dict[object, _ArraysPlan | None] = {}

    def encode(self, value: object) -> bytes | Parts:
        """Return one frame as bytes, or Parts. Raises EncodeError, MessageTooLargeError."""
        if type(value) is not dict:
            return self._tree(value)
        mapping: dict[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        arrays = mapping.values()
        if type(next(iter(arrays), None)) in _ATOMS:  # the dict holds other values than arrays
            return self._flat(mapping) or self._tree(mapping)
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

    def _flat(self, value: dict[Any, Any]) -> bytes | None:
        """Return a small dict of numbers and text in half of the time of `_tree`; None for any other dict."""
        if not _is_flat(value):
            return None
        try:
            body = _pack(value)
        except (OverflowError, TypeError, ValueError):
            return None
        return TREE + body if len(body) <= MAX_HEADER_BYTES else None

    def _tree(self, value: object) -> bytes | Parts:
        walk = _Tree(False)
        try:
            try:
                body = _pack(walk.node(value, 0))
            except OverflowError:
                walk = _Tree(True)
                body = _pack(walk.node(value, 0))
        except EncodeError as error:
            raise type(error)(f"{_path_of_first_fault(value)}: {error}") from None
        except (UnicodeEncodeError, RecursionError, ValueError, TypeError) as error:
            raise EncodeError(str(error)) from None
        if is_over_limit(body):
            raise MessageTooLargeError(
                f"the value has more than {MAX_HEADER_BYTES} bytes beside arrays, bytes and long strings; "
                "put large data into numpy arrays"
            )
        return Parts((TREE + body, *walk.parts)) if walk.parts else TREE + body


class _Tree:
    """Encodes one TREE message, and collects the parts."""

    def __init__(self, wide_integers: bool) -> None:
        self._wide_integers = wide_integers
        self.parts: list[Buffer] = []

    def node(self, value: Any, depth: int) -> object:
        """Convert a value to the types that msgspec packs. Raises EncodeError."""
        kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind in _ATOMS:
            return self._wide(value) if kind is int and self._wide_integers else value
        if depth >= MAX_DEPTH:
            raise EncodeError(f"the value is nested deeper than {MAX_DEPTH} levels")
        if kind is dict:
            if not self._wide_integers and _is_flat(value):
                return value
            return {self._key(key): self.node(item, depth + 1) for key, item in value.items()}
        if kind is list:
            if not self._wide_integers and _ATOMS.issuperset(map(type, value)):
                return value
            return [self.node(item, depth + 1) for item in value]
        if kind is tuple:
            return Ext(structure.TUPLE, _pack([self.node(item, depth + 1) for item in value]))
        return self._leaf(value, depth)

    def _leaf(self, value: Any, depth: int) -> object:
        kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, np.ndarray):
            return self._array(value)  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, np.generic):
            scalar: Array = np.asarray(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return Ext(structure.SCALAR, _describe(scalar) + scalar.tobytes())
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._bytes(value)  # pyright: ignore[reportUnknownArgumentType]
        if kind is complex:
            return Ext(structure.COMPLEX, struct.pack("<dd", value.real, value.imag))
        if isinstance(value, enum.Enum):
            raise EncodeError("an Enum cannot be sent; send its .value")
        fields = records.fields_of(value)
        if fields is not None:
            packed = {name: self.node(item, depth + 1) for name, item in fields.items()}
            return Ext(structure.RECORD, _pack([records.record_name(kind), packed]))
        bases: tuple[Any, ...] = (dict, list, tuple, str, int, float)
        for base in bases:
            if isinstance(value, base):
                return self.node(base(value), depth)
        raise EncodeError(f"{kind.__name__} cannot be sent; the caraml.codec docstring lists what can")

    def _array(self, array: Array) -> object:
        if array.nbytes < OUT_OF_BAND:
            return Ext(structure.ARRAY, _describe(array) + array.tobytes())
        array = np.asarray(array)
        head = _describe(array)
        self.parts.append(flat_bytes(array))
        return Ext(structure.ARRAY_PART, head)

    def _bytes(self, value: bytes | bytearray | memoryview) -> object:
        if size(value) < OUT_OF_BAND:
            return bytes(value)
        self.parts.append(value if isinstance(value, bytes) else memoryview(bytes(value)))
        return Ext(structure.BYTES_PART, b"")

    def _key(self, key: Any) -> object:
        if type(key) in _KEYS:
            if type(key) is int and not -(1 << 63) <= key < 1 << 64:
                raise EncodeError("an integer key has more than 64 bits; use a string")
            return key
        if type(key) is tuple:
            return tuple(self._key(item) for item in key)  # pyright: ignore[reportUnknownVariableType]
        raise EncodeError(
            f"{type(key).__name__} cannot be a key; use None, bool, int, float, str, bytes or tuple"
        )

    def _wide(self, value: int) -> object:
        if -(1 << 63) <= value < 1 << 64:
            return value
        return Ext(structure.INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


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
    tree = _Tree(False)
    for child_path, child in children:
        try:
            tree.node(child, 1)
        except EncodeError:
            return _path_of_first_fault(child, child_path)
        except (OverflowError, UnicodeEncodeError, ValueError, TypeError, RecursionError):
            continue
    return path
