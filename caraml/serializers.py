"""Serializers and deserializers of sockets: functions between values and the parts of a message.

| name | sends | safe from any peer |
|---|---|---|
| None | bytes, unchanged | yes |
| 'msgpack' | see caraml.codec | yes |
| 'str', 'json' | UTF-8 text | yes |
| 'pyarrow' | the same as 'msgpack' | yes |
| 'pickle' | see caraml.pickled | only signed, or from trusted peers |
| a callable | its result, in one frame | depends on the callable |
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from caraml.codec import Decoder, Encoder
from caraml.codec.parts import Buffer
from caraml.errors import EncodeError, MalformedMessageError, MessageTooLargeError, PickleRefusedError
from caraml.limits import MAX_JSON_BRACKETS
from caraml.transport.socket import ZmqSocket
from caraml.utils import serializer as classic

Serializer: TypeAlias = "str | Callable[[Any], Any] | None"
Encode: TypeAlias = "Callable[[Any], Any] | None"
Decode: TypeAlias = "Callable[[Any, Sequence[Buffer]], Any]"

_SMALL = 1 << 13
# 'pyarrow' has the functions of 'msgpack' and stands before it in these dicts: both are 'msgpack' here.
_NAME_OF: dict[Any, str | None] = {
    **{function: name for name, function in classic.SERIALIZERS.items()},
    **{function: name for name, function in classic.DESERIALIZERS.items()},
    classic.get_serializer(None): None,
}


def encoder(serializer: Serializer, socket: ZmqSocket) -> Encode:
    """Return the function from a value to bytes or Parts; None for bytes as they are.

    Raises ValueError, PickleRefusedError.
    """
    name = _name(serializer)
    if name is None:
        return None
    if name == "msgpack":
        return Encoder().encode
    if name == "pickle":
        return _pickle(socket)[0]
    if name == "str":
        return _encode_text
    return _encode_json if name == "json" else classic.get_serializer(name)


def decoder(deserializer: Serializer, socket: ZmqSocket) -> Decode:
    """Return the function from a message's first frame and its other frames to a value.

    Raises ValueError, PickleRefusedError.
    """
    name = _name(deserializer)
    if name is None:
        return decode_bytes
    if name == "msgpack":
        return _copy_small_frames(Decoder(socket.limits).decode)
    if name == "pickle":
        return _copy_small_frames(_pickle(socket)[1])
    if name == "str":
        return _decode_text
    if name == "json":
        return _decode_json
    return _decode_with(classic.get_deserializer(name))


def _name(serializer: Serializer) -> Any:
    """Return 'str', 'json', 'msgpack', 'pickle', None or the program's own function. Raises ValueError."""
    function = classic.get_serializer(serializer)
    try:
        return _NAME_OF.get(function, function)
    except TypeError:  # a callable that is not hashable
        return function


def _pickle(socket: ZmqSocket) -> Any:
    """Return the functions that encode and decode pickle, or close the socket. Raises PickleRefusedError."""
    from caraml.pickled import pickle_codec

    try:
        return pickle_codec(socket.address, socket.trusted)
    except PickleRefusedError:
        socket.close(0)
        raise


def decode_bytes(frame: Any, rest: Sequence[Buffer]) -> bytes:
    """Return the bytes of a message of one frame. Raises MalformedMessageError for more frames."""
    if rest:
        raise MalformedMessageError(
            f"{1 + len(rest)} parts where one was expected; the deserializer must match the peer's serializer"
        )
    return frame if type(frame) is bytes else frame.bytes


def _copy_small_frames(decode: Decode) -> Decode:
    """Return a decoder that copies small frames, which is cheaper than a view."""

    def decode_frame(frame: Any, rest: Sequence[Buffer]) -> Any:
        if type(frame) is bytes:
            return decode(frame, rest)
        return decode(frame.bytes if len(frame) < _SMALL else frame.buffer, rest)

    return decode_frame


def _decode_text(frame: Any, rest: Sequence[Buffer]) -> str:
    try:
        return decode_bytes(frame, rest).decode("UTF-8")
    except UnicodeDecodeError as error:
        raise MalformedMessageError(f"not UTF-8: {error}") from None


def _decode_json(frame: Any, rest: Sequence[Buffer]) -> Any:
    text = decode_bytes(frame, rest)
    if _has_too_many_brackets(text):
        raise MalformedMessageError(f"the JSON has more than {MAX_JSON_BRACKETS} brackets ([ and {{)")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedMessageError(f"not JSON: {error}") from None


def _encode_text(value: Any) -> bytes:
    try:
        return classic.str2bytes(value)
    except AttributeError:
        raise EncodeError(f"a {type(value).__name__} cannot be sent with serializer='str'") from None


def _encode_json(value: Any) -> bytes:
    try:
        text = classic.json_serialize(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(f"the value cannot be sent with serializer='json': {error}") from None
    if _has_too_many_brackets(text):
        raise MessageTooLargeError(
            f"JSON with more than {MAX_JSON_BRACKETS} brackets ([ and {{) cannot be sent"
        )
    return text


def _has_too_many_brackets(text: bytes) -> bool:
    """Return whether JSON may have so many lists and objects that they take much memory."""
    return len(text) > MAX_JSON_BRACKETS < text.count(b"[") + text.count(b"{")


def _decode_with(function: Callable[[Any], Any]) -> Decode:
    return lambda frame, rest: function(decode_bytes(frame, rest))
