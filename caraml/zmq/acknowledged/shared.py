"""A sender's messages as one of several receivers behind a proxy sees them: some of them, in any order."""

from collections.abc import Iterator

from caraml.zmq.acknowledged.protocol import MOST_DONE, pack_done

_REMEMBERED = 1 << 13


class SharedSession:
    """Has what a receiver's session has; what is finished is acknowledged one by one.

    A ROUTER-DEALER proxy gives each message to the next receiver, so that no receiver knows what it should
    have had: the sender sends again what nobody acknowledged.
    """

    __slots__ = ("_finished", "_owed", "acknowledged", "gap", "key", "peer", "received")

    def __init__(self, key: tuple[int, int], peer: bytes) -> None:
        self.key = key
        self.peer = peer
        self.gap = False
        self.received = self.acknowledged = 0
        self._finished: dict[int, bool] = {}  # by sequence; the oldest first
        self._owed: list[int] = []

    @property
    def finished(self) -> int:
        """The last sequence that was finished here."""
        return self.acknowledged

    @finished.setter
    def finished(self, sequence: int) -> None:
        self._finished[sequence] = True
        self._owed.append(sequence)

    def take(self, sequence: int) -> bool:
        """False for a message that came here before; it is acknowledged again where it is finished."""
        finished = self._finished.get(sequence)
        if finished is None:
            self._finished[sequence] = False
            if len(self._finished) > _REMEMBERED:
                del self._finished[next(iter(self._finished))]
            return True
        if finished:
            self._owed.append(sequence)
        return False

    def acknowledgements(self) -> Iterator[bytes]:
        """The frames that acknowledge what is finished and is not acknowledged yet."""
        owed, self._owed = self._owed, []
        for start in range(0, len(owed), MOST_DONE):
            yield pack_done(self.key, owed[start : start + MOST_DONE])
