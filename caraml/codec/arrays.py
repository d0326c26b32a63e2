"""Descriptions of numpy arrays in messages.

A description is msgpack of `[dtype, shape, order]`: the dtype as text, as in the header of a .npy file, and
'C' or 'F'. Descriptions repeat from
message to message, so sender and receiver cache them, within bounds: a peer chooses what the receiver caches.
"""

import ast
import functools
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

OUT_OF_BAND = 1 << 16  # bytes from which an array is a part of its own
REMEMBERED = 512  # descriptions that a cache holds
REMEMBERED_BYTES = 2048  # of a received description; longer ones are not cached
MAX_DIMENSIONS = 32

_MAX_DTYPE = 10_000  # characters; NumPy's own limit for the header of a file
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
    """Return the description of an array. Raises TypeError for a dtype that cannot be sent."""
    if dtype.hasobject or dtype.kind == "T":
        raise TypeError(
            f"an array of dtype {dtype} holds Python objects or strings of any length: it cannot be sent"
        )
    if _has_empty_items(dtype):
        raise TypeError(f"an array of dtype {dtype} has items of zero bytes and cannot be sent")
    if dtype.isbuiltin == 2:  # such as bfloat16 of ml_dtypes, whose text is that of raw bytes
        raise TypeError(f"an array of dtype {dtype} cannot be sent; convert it to a dtype of NumPy itself")
    text = dtype.str if dtype.names is None else repr(np.lib.format.dtype_to_descr(dtype))
    if len(text) > _MAX_DTYPE:
        raise TypeError(
            f"an array whose dtype has {len(text)} characters cannot be sent; the maximum is {_MAX_DTYPE}"
        )
    if len(shape) > MAX_DIMENSIONS:
        raise TypeError(
            f"an array of {len(shape)} dimensions cannot be sent; the maximum is {MAX_DIMENSIONS}"
        )
    return _encode([text, shape, order])


def order_of(array: Array) -> str:
    """Return 'F' for an array in Fortran order only, else 'C' (other layouts are copied to that order)."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def flat_bytes(array: Array) -> Array:
    """Return the bytes of an array in its own order, copied only if it is not contiguous."""
    contiguous = array.T if order_of(array) == "F" else np.ascontiguousarray(array)
    return contiguous.reshape(-1).view(np.uint8)


def read_layout(description: bytes) -> Layout:
    """Return the layout of an untrusted description.

    Raises ValueError, RecursionError and the errors of msgspec, which are not ValueErrors.
    """
    read = _cached_layout if len(description) <= REMEMBERED_BYTES else _layout
    return read(description)


def _layout(packed: bytes) -> Layout:
    description: Any = _decode(packed)
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
        raise ValueError(f"a received array has {len(shape)} dimensions; the maximum is {MAX_DIMENSIONS}")
    return Layout(dtype, tuple(shape), description[2], nbytes)


_cached_layout = functools.lru_cache(maxsize=REMEMBERED)(_layout)


def _check_dtype(text: object) -> np.dtype[Any]:
    if not isinstance(text, str) or len(text) > _MAX_DTYPE:
        raise ValueError(f"a received array has an invalid dtype: {str(text)[:40]}")
    try:
        # NumPy reads the header of a file in the same way.
        descr: Any = ast.literal_eval(text) if text.startswith("[") else text
        dtype = np.lib.format.descr_to_dtype(descr)
    except Exception as error:  # NumPy raises many kinds for a bad description
        raise ValueError(f"a received array has an invalid dtype: {error}") from None
    if dtype.hasobject or dtype.kind == "T":
        raise ValueError("a received array has a dtype of Python objects or of strings of any length")
    if _has_empty_items(dtype):
        raise ValueError("a received array has items of no bytes, so its size would be unlimited")
    return dtype


def _has_empty_items(dtype: np.dtype[Any]) -> bool:
    """Return whether the items of the dtype, or of one inside it, have zero bytes, as those of `S0`."""
    if dtype.itemsize == 0:
        return True
    if dtype.subdtype is not None:
        return _has_empty_items(dtype.subdtype[0])
    return any(_has_empty_items(field[0]) for field in (dtype.fields or {}).values())
