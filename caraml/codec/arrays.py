"""Descriptions of numpy arrays: made from an array, and checked and rebuilt from a message.

A description is msgpack of `[dtype, shape, order]`, order being 'C' or 'F'. Descriptions repeat from message
to message, so both directions remember them, within bounds: a peer chooses what is remembered.
"""

import functools
import re
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

OUT_OF_BAND = 1 << 16
REMEMBERED = 512
REMEMBERED_BYTES = 2048
MAX_DIMENSIONS = 32

_SIMPLE_DTYPE = re.compile(r"[<>|=][biufcmMSUVT]\d{1,9}(\[\d{0,9}[a-zA-Z]{1,7}\])?")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Layout(NamedTuple):
    """A checked description: what `numpy.ndarray` needs, and how many bytes that must be."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: str
    nbytes: int


@functools.lru_cache(maxsize=REMEMBERED)
def describe(dtype: np.dtype[Any], shape: tuple[int, ...], order: str) -> bytes:
    """Return the description of an array. Raises TypeError for Python objects and items of no bytes."""
    if dtype.hasobject or dtype.kind == "T":
        raise TypeError(f"an array of dtype {dtype} holds Python objects, which cannot be sent")
    if _has_empty_items(dtype):
        raise TypeError(f"an array of dtype {dtype} has items of no bytes and cannot be sent")
    simple = dtype.names is None and dtype.subdtype is None
    return _encode([dtype.str if simple else np.lib.format.dtype_to_descr(dtype), shape, order])


def order_of(array: Array) -> str:
    """Return 'F' for an array in column order only, else 'C' (a copy puts any other array in that order)."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def flat_bytes(array: Array) -> Array:
    """Return the array's memory as bytes, in its own order; a copy only when it is not contiguous."""
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    laid_out = array.T if order_of(array) == "F" else np.ascontiguousarray(array)
    return laid_out.reshape(-1).view(np.uint8)


class Layouts:
    """Descriptions back to layouts, each checked once and remembered."""

    def __init__(self) -> None:
        self._known: dict[bytes, Layout] = {}

    def read(self, description: bytes) -> Layout:
        """Return the layout of a description. Raises ValueError for anything `describe` cannot have made."""
        known = self._known.get(description)
        if known is None:
            known = check_layout(_decode(description))
            if len(description) <= REMEMBERED_BYTES:
                if len(self._known) >= REMEMBERED:
                    self._known.clear()
                self._known[description] = known
        return known


def check_layout(described: Any) -> Layout:
    """Return the layout of an untrusted description. Raises ValueError for objects and senseless shapes."""
    match described:
        case [dtype_name, list(), "C" | "F"]:
            dtype = _check_dtype(dtype_name)
        case _:
            raise ValueError("the description of an array is malformed")
    shape: list[int] = []
    nbytes = dtype.itemsize
    for length in described[1]:
        if type(length) is not int or not 0 <= length < 1 << 62:
            raise ValueError("an array has an invalid shape")
        shape.append(length)
        nbytes *= length
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"an array has {len(shape)} dimensions; the maximum is {MAX_DIMENSIONS}")
    return Layout(dtype, tuple(shape), described[2], nbytes)


def _check_dtype(named: object) -> np.dtype[Any]:
    try:
        if isinstance(named, str):
            if not _SIMPLE_DTYPE.fullmatch(named):
                raise ValueError(f"an array has an invalid dtype: {named[:40]!r}")
            dtype = np.dtype(named)
        else:
            dtype = _structured_dtype(named)
    except (TypeError, KeyError, IndexError, OverflowError, SyntaxError, RecursionError) as error:
        raise ValueError(f"an array has an invalid dtype: {error}") from None
    if dtype.hasobject or dtype.kind == "T":
        raise ValueError("the dtype of an array holds Python objects")
    if _has_empty_items(dtype):
        raise ValueError("the items of an array are of no bytes, so that its size would be unlimited")
    return dtype


def _has_empty_items(dtype: np.dtype[Any]) -> bool:
    """Return whether the dtype, or one inside it, is `S0` or the like."""
    if dtype.itemsize == 0:
        return True
    if dtype.subdtype is not None:
        return _has_empty_items(dtype.subdtype[0])
    return any(_has_empty_items(field[0]) for field in (dtype.fields or {}).values())


def _structured_dtype(descr: Any) -> np.dtype[Any]:
    """Rebuild what `dtype_to_descr` made, after msgpack turned its tuples into lists."""
    if len(repr(descr)) > 1 << 16:
        raise ValueError("the dtype of an array is too long")
    dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(_tuples(descr))
    return dtype


def _tuples(descr: Any) -> Any:
    if isinstance(descr, str):
        if not _SIMPLE_DTYPE.fullmatch(descr):
            raise ValueError(f"an array has an invalid dtype: {descr[:40]!r}")
        return descr
    fields: list[Any] = descr
    if fields and isinstance(fields[0], list) and not isinstance(fields[-1], list):
        raise ValueError("an array has an invalid dtype")
    if fields and not all(isinstance(field, list) for field in fields):  # a subarray: (base, shape)
        base, shape = fields
        return _tuples(base), tuple(shape)
    return [_field(field) for field in fields]


def _field(field: Any) -> tuple[Any, ...]:
    name, kind, *shape = field
    label: Any = tuple(name) if isinstance(name, list) else name  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    sizes: list[Any] = [tuple(size) for size in shape]
    return label, _tuples(kind), *sizes
