"""The msgpack extension codes of the `'msgpack'` codec."""

ARRAY = 1
ARRAY_PART = 2
BYTES_PART = 3
SCALAR = 4
TUPLE = 5
RECORD = 6
INTEGER = 7
COMPLEX = 8
