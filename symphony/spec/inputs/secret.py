"""A value that only its process sees; everything else shows its source."""

from __future__ import annotations

import hashlib
import hmac


class Secret:
    """The value of a variable in secret_env.

    source:  the file it was read from; empty for one that the program was given.
    trouble: why there is no value, in words that do not hold it; empty where there is one.
    is_known: False in a preview of what only the run itself makes.
    """

    __slots__ = ("_value", "is_known", "source", "trouble")

    def __init__(
        self, value: str = "", *, source: str = "", trouble: str = "", is_known: bool = True
    ) -> None:
        self._value = value
        self.source = source
        self.trouble = trouble
        self.is_known = is_known

    def reveal(self) -> str:
        """Return the value, for the backend alone; empty where it is not known yet."""
        return self._value

    def digest(self, key: bytes) -> str:
        """Return a digest that tells this value from another one to those who have the key."""
        if not self.is_known:
            return "unknown"
        return hmac.new(key, self._value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]

    def __repr__(self) -> str:
        return self.source or "[secret]"
