"""Measures the structure of a msgpack message before it is decoded, to bound the memory that it takes."""

import re

from caraml.limits import MAX_HEADER_BYTES

_SHORT_STRINGS = b"|".join(re.escape(bytes((0xA0 + length,))) + b".{%d}" % length for length in range(32))
_PLAIN = re.compile(  # numbers, None, bool and short strings
    rb"(?:[\x00-\x7f\xc0-\xc3\xe0-\xff]+|[\xcc\xd0].|[\xcd\xd1]..|[\xca\xce\xd2].{4}|[\xcb\xcf\xd3].{8}|"
    + _SHORT_STRINGS
    + rb")*+",
    re.DOTALL,
)
# Sizes in bytes, by the first byte of a msgpack object.
# The length field of bytes and long strings, the head of lists and dicts with a length field.
_LENGTH_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_CONTAINERS = {0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}
# The length field of extensions, the content of extensions without one.
_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def is_over_limit(body: bytes) -> bool:
    """Return whether a message has over MAX_HEADER_BYTES outside of arrays, bytes and long strings."""
    skipped = position = 0
    while len(body) - skipped > MAX_HEADER_BYTES:
        position = _PLAIN.match(body, position).end()  # pyright: ignore[reportOptionalMemberAccess]
        if position >= len(body) or position - skipped > MAX_HEADER_BYTES:
            return True
        lead = body[position]
        if 0x80 <= lead < 0xA0:
            position += 1
        elif lead in _CONTAINERS:
            position += _CONTAINERS[lead]
        elif lead in _LENGTH_BYTES:
            head = 1 + _LENGTH_BYTES[lead]
            content = int.from_bytes(body[position + 1 : position + head], "big")
            skipped += content
            position += head + content
        elif lead in _EXTENSIONS or lead in _FIXED_EXTENSIONS:
            head, content = _extension(body, position, lead)
            skipped += content
            position += head + content
        else:
            break  # malformed: the decoder reports it
    return False


def _extension(body: bytes, position: int, lead: int) -> tuple[int, int]:
    """Return the sizes of an extension's head and content; 0 for content that is msgpack itself."""
    if lead in _FIXED_EXTENSIONS:
        head, content = 2, _FIXED_EXTENSIONS[lead]
    else:
        head = 2 + _EXTENSIONS[lead]
        content = int.from_bytes(body[position + 1 : position + head - 1], "big")
    code = body[position + head - 1] if position + head <= len(body) else 0
    return head, 0 if code in (TUPLE, RECORD) else content


# The codes of the msgpack extensions in messages.
ARRAY = 1
ARRAY_PART = 2
# 3 was that of bytes of their own; older peers decode it so.
SCALAR = 4
TUPLE = 5
RECORD = 6
INTEGER = 7
COMPLEX = 8
