"""Serializers and deserializers of sockets: functions between values and the parts of a message.

| name | sends | safe from any peer |
|---|---|---|
| None | bytes as they are | yes |
| 'msgpack' | see caraml.codec | yes |
| 'str', 'json' | UTF-8 text | yes |
| 'pyarrow' | as 'msgpack' (what pyarrow was used for) | yes |
| 'pickle' | see caraml.pickled | only as said there |
| a callable | what it returns, one frame | as the callable is |
"""

import json
import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from caraml.codec import Decoder, Encoder
from caraml.codec.parts import Buffer
from caraml.errors import MalformedMessageError, MessageTooLargeError, PickleRefusedError
from caraml.limits import MAX_ITEMS, Limits
from caraml.transport.socket import ZmqSocket
from caraml.transport.wire import ZERO_COPY
from caraml.utils import serializer as classic

Serializer: TypeAlias = "str | Callable[[Any], Any] | None"
Encode: TypeAlias = "Callable[[Any], Any] | None"
Decode: TypeAlias = "Callable[[Any, Sequence[Buffer]], Any]"

NAMES = ("str", "json", "msgpack", "pickle", "pyarrow")
_SMALL = 1 << 13
_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)  # or one without end: linear
_SAME: dict[Any, str] = {
    pickle.dumps: "pickle",
    pickle.loads: "pickle",
    classic.pa_serialize: "msgpack",
    classic.pa_deserialize: "msgpack",
    classic.json_serialize: "json",
    classic.json_deserialize: "json",
    classic.str2bytes: "str",
    classic.bytes2str: "str",
}


def encoder(serializer: Serializer, socket: ZmqSocket) -> Encode:
    """Return the function from a value to bytes or Parts; None for bytes as they are.

    Raises ValueError, PickleRefusedError.
    """
    name = _name(serializer)
    if name in ("msgpack", "pyarrow"):
        return Encoder(socket.limits).encode  # checks the limits itself
    encode = (
        None if name is None else _pickle(socket)[0] if name == "pickle" else classic.get_serializer(name)
    )
    if name == "json":
        encode = _encode_json
    return encode if socket.limits.message_bytes >= ZERO_COPY else _within(socket.limits, encode)


def decoder(deserializer: Serializer, socket: ZmqSocket) -> Decode:
    """Return the function from the first frame and the others to a value.

    Raises ValueError, PickleRefusedError.
    """
    name = _name(deserializer)
    if name is None:
        return decode_bytes
    if name in ("msgpack", "pyarrow"):
        return _copied_if_small(Decoder(socket.limits).decode)
    if name == "pickle":
        return _copied_if_small(_pickle(socket)[1])
    if name == "str":
        return _text
    if name == "json":
        return _decode_json
    return _called(classic.get_deserializer(name))


def _within(limits: Limits, encode: Encode) -> Encode:
    """Return an encoder that checks every message: a Wire checks only large ones."""

    def checked(value: Any) -> Any:
        message = value if encode is None else encode(value)
        if type(message) is bytes and len(message) > limits.message_bytes:
            raise MessageTooLargeError(
                f"{len(message)} bytes, over Limits.message_bytes of {limits.message_bytes}"
            )
        return message

    return checked


def _name(serializer: Serializer) -> Any:
    if isinstance(serializer, str):
        if serializer.lower() not in NAMES:
            raise ValueError(
                f"serializer must be a callable or one of {', '.join(NAMES)}, not {serializer!r}"
            )
        return serializer.lower()
    if serializer is not None and not callable(serializer):
        raise ValueError(f"serializer must be a callable or one of {', '.join(NAMES)}, not {serializer!r}")
    try:
        return _SAME.get(serializer, serializer)
    except TypeError:
        return serializer


def _pickle(socket: ZmqSocket) -> Any:
    from caraml.pickled import pickle_codec

    try:
        return pickle_codec(socket.address, socket.trusted, limits=socket.limits)
    except PickleRefusedError:
        socket.close(0)
        raise


def decode_bytes(frame: Any, rest: Sequence[Buffer]) -> bytes:
    """Return the bytes of a message of one frame. Raises MalformedMessageError for more frames."""
    if rest:
        raise MalformedMessageError(f"{1 + len(rest)} parts where one was expected")
    return frame if type(frame) is bytes else frame.bytes


def _copied_if_small(decode: Decode) -> Decode:
    """Return a decoder that copies small frames, which is cheaper than a view."""

    def decode_frame(frame: Any, rest: Sequence[Buffer]) -> Any:
        if type(frame) is bytes:
            return decode(frame, rest)
        return decode(frame.bytes if len(frame) < _SMALL else frame.buffer, rest)

    return decode_frame


def _text(frame: Any, rest: Sequence[Buffer]) -> str:
    try:
        return decode_bytes(frame, rest).decode("UTF-8")
    except UnicodeDecodeError as error:
        raise MalformedMessageError(f"not UTF-8: {error}") from None


def _decode_json(frame: Any, rest: Sequence[Buffer]) -> Any:
    text = decode_bytes(frame, rest)
    if _has_too_many_items(text):
        raise MalformedMessageError(f"JSON of more than {MAX_ITEMS} lists and objects")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedMessageError(f"not JSON: {error}") from None


def _encode_json(value: Any) -> bytes:
    text = classic.json_serialize(value)
    if _has_too_many_items(text):
        raise MessageTooLargeError(f"more than {MAX_ITEMS} lists and objects")
    return text


def _has_too_many_items(text: bytes) -> bool:
    """Count lists and objects, without the brackets inside strings where these matter."""
    if len(text) <= MAX_ITEMS or text.count(b"[") + text.count(b"{") <= MAX_ITEMS:
        return False
    bare = _JSON_STRING.sub(b"", text)
    return bare.count(b"[") + bare.count(b"{") > MAX_ITEMS


def _called(function: Callable[[Any], Any]) -> Decode:
    return lambda frame, rest: function(decode_bytes(frame, rest))
