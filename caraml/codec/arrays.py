"""Descriptions of numpy arrays in messages.

A description is msgpack of `[dtype, shape, order]`, where order is 'C' or 'F'. Descriptions repeat from
message to message, so sender and receiver cache them, within bounds: a peer chooses what the receiver caches.
"""

import functools
import re
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

OUT_OF_BAND = 1 << 16  # bytes from which an array is a part of its own
REMEMBERED = 512  # descriptions that a cache holds
REMEMBERED_BYTES = 2048  # of a description; longer ones are not cached
MAX_DIMENSIONS = 32

_SIMPLE_DTYPE = re.compile(r"[<>|=][biufcmMSUVT]\d{1,9}(\[\d{0,9}[a-zA-Z]{1,7}\])?")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Layout(NamedTuple):
    """A validated description: the arguments of `numpy.ndarray`, and the bytes of the array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: str
    nbytes: int


@functools.lru_cache(maxsize=REMEMBERED)
def describe(dtype: np.dtype[Any], shape: tuple[int, ...], order: str) -> bytes:
    """Return the description of an array. Raises TypeError for dtypes of objects or of zero bytes."""
    if dtype.hasobject or dtype.kind == "T":
        raise TypeError(f"an array of dtype {dtype} holds Python objects, which cannot be sent")
    if _has_empty_items(dtype):
        raise TypeError(f"an array of dtype {dtype} has items of zero bytes and cannot be sent")
    simple = dtype.names is None and dtype.subdtype is None
    return _encode([dtype.str if simple else np.lib.format.dtype_to_descr(dtype), shape, order])


def order_of(array: Array) -> str:
    """Return 'F' for an array in Fortran order only, else 'C' (other layouts are copied to that order)."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def flat_bytes(array: Array) -> Array:
    """Return the bytes of an array in its own order, copied only if it is not contiguous."""
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    contiguous = array.T if order_of(array) == "F" else np.ascontiguousarray(array)
    return contiguous.reshape(-1).view(np.uint8)


class Layouts:
    """Reads descriptions, and caches the layouts."""

    def __init__(self) -> None:
        self._cached: dict[bytes, Layout] = {}

    def read(self, description: bytes) -> Layout:
        """Return the layout of a description. Raises ValueError, TypeError."""
        layout = self._cached.get(description)
        if layout is None:
            layout = check_layout(_decode(description))
            if len(description) <= REMEMBERED_BYTES:
                if len(self._cached) >= REMEMBERED:
                    self._cached.clear()
                self._cached[description] = layout
        return layout


def check_layout(description: Any) -> Layout:
    """Return the layout of an untrusted description. Raises ValueError."""
    match description:
        case [dtype_name, list(), "C" | "F"]:
            dtype = _check_dtype(dtype_name)
        case _:
            raise ValueError("the description of an array is malformed")
    shape: list[int] = []
    nbytes = dtype.itemsize
    for length in description[1]:
        if type(length) is not int or not 0 <= length < 1 << 62:
            raise ValueError(f"a received array has an invalid shape: {str(description[1])[:40]}")
        shape.append(length)
        nbytes *= length
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"an array has {len(shape)} dimensions; the maximum is {MAX_DIMENSIONS}")
    return Layout(dtype, tuple(shape), description[2], nbytes)


def _check_dtype(name: object) -> np.dtype[Any]:
    try:
        if isinstance(name, str):
            if not _SIMPLE_DTYPE.fullmatch(name):
                raise ValueError(f"a received array has an invalid dtype: {name[:40]!r}")
            dtype = np.dtype(name)
        else:
            dtype = _structured_dtype(name)
    except (TypeError, KeyError, IndexError, OverflowError, SyntaxError, RecursionError) as error:
        raise ValueError(f"a received array has an invalid dtype: {error}") from None
    if dtype.hasobject or dtype.kind == "T":
        raise ValueError("the dtype of an array holds Python objects")
    if _has_empty_items(dtype):
        raise ValueError("the items of an array have no bytes, so that its size would be unlimited")
    return dtype


def _has_empty_items(dtype: np.dtype[Any]) -> bool:
    """Return whether the items of the dtype, or of one inside it, have zero bytes, as those of `S0`."""
    if dtype.itemsize == 0:
        return True
    if dtype.subdtype is not None:
        return _has_empty_items(dtype.subdtype[0])
    return any(_has_empty_items(field[0]) for field in (dtype.fields or {}).values())


def _structured_dtype(descr: Any) -> np.dtype[Any]:
    """Return the dtype of a `dtype_to_descr` whose tuples msgpack has turned into lists."""
    if len(repr(descr)) > 1 << 16:
        raise ValueError("the dtype of an array is too long")
    dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(_tuples(descr))
    return dtype


def _tuples(descr: Any) -> Any:
    if isinstance(descr, str):
        if not _SIMPLE_DTYPE.fullmatch(descr):
            raise ValueError(f"a received array has an invalid dtype: {descr[:40]!r}")
        return descr
    fields: list[Any] = descr
    if fields and isinstance(fields[0], list) and not isinstance(fields[-1], list):  # fields and others mixed
        raise ValueError(f"a received array has an invalid dtype: {str(descr)[:40]}")
    if fields and not all(isinstance(field, list) for field in fields):  # a subarray: (base, shape)
        base, shape = fields
        return _tuples(base), tuple(shape)
    return [_field(field) for field in fields]


def _field(field: Any) -> tuple[Any, ...]:
    name, kind, *shape = field
    # A name may be (title, name).
    label: Any = tuple(name) if isinstance(name, list) else name  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    sizes: list[Any] = [tuple(size) for size in shape]
    return label, _tuples(kind), *sizes
