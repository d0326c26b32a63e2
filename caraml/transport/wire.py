"""Wire: one message out, one message in, each with a deadline, by the thread that calls.

A Wire adds to a ZmqSocket: deadlines, the rule that one thread uses it at a time, the limits on what arrives,
and an end that waits no longer than asked.
"""

import logging
import time
from collections import deque
from typing import Any, SupportsIndex

import zmq

from caraml import process
from caraml.codec.parts import Buffer, Parts, size
from caraml.errors import (
    ClosedError,
    ConcurrentUseError,
    ForkedError,
    MalformedMessageError,
    MessageTooLargeError,
    PeerLostError,
    SocketError,
    ZmqTimeoutError,
)
from caraml.limits import MAX_PARTS
from caraml.transport.receive_budget import ReceiveBudget
from caraml.transport.socket import ZmqSocket
from caraml.transport.socket_monitor import background_thread

LARGE = 1 << 13
MORE = int(zmq.SNDMORE)


_NO_FRAMES: list[zmq.Frame] = []


log = logging.getLogger("caraml")

SLICE_MS = 250
ZERO_COPY = 1 << 18
CLOSE_WAIT = 1.0
_FOREVER = -1


class MessageTracker:
    """One buffer or several that ZeroMQ still reads from. `done` is about memory, not about delivery."""

    def __init__(self, address: str, trackers: list[Any]) -> None:
        self._address = address
        self._trackers = trackers

    @property
    def done(self) -> bool:
        """Return whether every buffer may be written again."""
        return all(tracker.done for tracker in self._trackers)

    def wait(self, timeout: float = -1) -> None:
        """Wait until `done`; seconds, negative for ever. Raises ZmqTimeoutError."""
        deadline = time.monotonic() + timeout
        for tracker in self._trackers:
            try:
                tracker.wait(-1 if timeout < 0 else max(0.0, deadline - time.monotonic()))
            except zmq.NotDone:
                raise ZmqTimeoutError(self._address, "the message's memory to be read", timeout) from None


DONE = MessageTracker("", [])


class _NoMoreTurns(list[int]):
    """The turns of a socket that is being closed: given back, never taken."""

    __slots__ = ()

    def pop(self, index: SupportsIndex = -1, /) -> int:
        raise IndexError


class Wire:
    """One socket's messages, both ways, of one thread at a time. Timeouts are seconds, negative waits for
    ever, None is the socket's own.

    The slow path checks, every quarter second, what the fast path cannot see: a peer that refuses us,
    or an exit of the interpreter.
    """

    def __init__(self, socket: ZmqSocket, timeout: float = _FOREVER) -> None:
        raw = socket.unwrap()
        self.socket = socket
        self.link = socket.link
        self.timeout = timeout
        self.exiting = self.closing = False
        self.fetched: deque[Any] | None = None  # received in advance by an endpoint; emptied after a fork
        self.small = min(ZERO_COPY, socket.limits.message_bytes + 1)  # bytes from which a look is taken
        self.slice_ms = SLICE_MS
        self.lost_before: int | None = None
        # REQ and REP refuse to send while parts of a message are left: what receives them need not ask.
        self.in_turn = self.alone = socket.socket_mode in (zmq.REQ, zmq.REP)
        self.put: Any = super(
            zmq.Socket, raw
        ).send  # below pyzmq's draft-option layer: a third of a call's time
        self.receive_part: Any = super(zmq.Socket, raw).recv
        self.receive_plainly = self.receive_part  # which a ReceiveBudget replaces for a while
        self._wait_in = self._wait_out = SLICE_MS
        raw.rcvtimeo = raw.sndtimeo = SLICE_MS
        socket.sliced(SLICE_MS, SLICE_MS)
        self.turns: list[int] = [1]
        self._former: list[int] = []
        self._forked = False
        process.close_at_exit(self)

    def enter(self) -> None:
        """Take the socket for this thread. Raises ConcurrentUseError, ForkedError, ClosedError."""
        try:
            self.turns.pop()
        except IndexError:
            raise self.why_not() from None

    def leave(self) -> None:
        """Give the socket back."""
        self.turns.append(1)

    def why_not(self) -> Exception:
        """Return the error of a call that finds the socket in use, closed, or from before a fork."""
        if self._forked:
            return ForkedError(f"{self.socket.address}: made before the fork; make a new one in the child")
        if self.closing or self.socket.unwrap().closed:
            return ClosedError(f"{self.socket.address}: the socket is closed")
        return ConcurrentUseError(
            f"{self.socket.address}: used by two threads at the same time; give each thread its own socket"
        )

    def after_slice(self) -> None:
        """Check the connection, and wait whole slices from now on. Raises the errors of `check`."""
        self.check()
        self.wait_in(self.slice_ms)

    def check(self) -> None:
        """Raise AuthenticationError, PeerLostError or ClosedError; a wait calls it once a slice."""
        if process.closing() and not self.exiting:
            raise SystemExit  # ends the waiting daemon thread silently
        if self.closing:
            raise self.why_not()
        if self.link.fault is not None:
            raise self.link.fault
        if self.lost_before is not None and self.link.lost > self.lost_before:
            raise PeerLostError(self.socket.address, "an answer, but the connection was lost")

    def wait_in(self, milliseconds: int) -> None:
        """Set how long one receive blocks."""
        if self._wait_in != milliseconds:
            self.socket.unwrap().rcvtimeo = self._wait_in = milliseconds
            self.socket.sliced(self._wait_in, self._wait_out)

    def wait_out(self, milliseconds: int) -> None:
        """Set how long one send blocks."""
        if self._wait_out != milliseconds:
            self.socket.unwrap().sndtimeo = self._wait_out = milliseconds
            self.socket.sliced(self._wait_in, self._wait_out)

    def late(self, waited_for: str, timeout: float) -> ZmqTimeoutError:
        """Return the error for a passed deadline; its cause is the last refused peer, if any."""
        error = ZmqTimeoutError(self.socket.address, waited_for, timeout)
        if self.link.denied:
            error.__cause__ = self.link.denied[-1]
        return error

    def failed(self, error: zmq.ZMQError) -> Exception:
        """Return the caraml error for an error of ZeroMQ, and drop unread parts: the socket stays usable."""
        if error.errno == zmq.EFSM and self.has_more():
            parts = 1 + len(self.rest())
            return MalformedMessageError(f"{self.socket.address}: {parts} parts where one was expected")
        if error.errno in (zmq.ENOTSOCK, zmq.ETERM):
            return ClosedError(f"{self.socket.address}: the socket is closed")
        return SocketError(error.errno, f"{self.socket.address}: {error.strerror}")

    def close(self, linger: float | None = None) -> None:
        """Close; `linger` seconds for what is unsent. Another thread's call ends with ClosedError.

        Raises ConcurrentUseError where that call does not end: a program's own deserializer that takes long.
        """
        give_up = time.monotonic() + CLOSE_WAIT
        while self.link.waiting() and linger != 0 and not self.closing and time.monotonic() < give_up:
            time.sleep(0.001)  # a peer may be on its way: only the monitor tells, until the close
        give_up = time.monotonic() + CLOSE_WAIT
        while not self._closed_now(linger):
            if time.monotonic() > give_up:
                raise ConcurrentUseError(
                    f"{self.socket.address}: could not close: a call in another thread does not return"
                )
            time.sleep(0.001)

    def _closed_now(self, linger: float | None) -> bool:
        """Close if no other thread is in a call; have that call end if one is."""
        if self._forked or self.socket.unwrap().closed:
            return True
        if not self.closing:
            self.closing = True
            self._former, self.turns = self.turns, _NoMoreTurns()
        if not self.turns:  # the turn belongs to a closed socket
            try:
                self._former.pop()
            except IndexError:
                return False
        self.turns.clear()
        if (unsent := self.link.waiting()) and linger != 0:
            log.warning(
                "%s: closed with %d messages unsent: no peer has bound this address, or the one that had is "
                "gone; they are lost unless one binds it before this process ends",
                self.socket.address,
                unsent,
            )
            if process.closing():
                linger = 0  # the linger of the messages has passed
        self.socket.close(None if linger is None else int(linger * 1000))
        return True

    def at_exit(self, stage: int) -> bool:
        """Close with the linger of an exit; True to be called again, as while a peer may still come."""
        if stage != 2:
            return False
        if self.link.waiting() and process.exiting_for() < process.EXIT_LINGER_MS / 1000:
            return True
        return not self._closed_now(process.EXIT_LINGER_MS / 1000)

    def in_use(self) -> bool:
        """Return whether another thread still uses the socket."""
        return not self.turns and not self.socket.unwrap().closed

    def forget(self) -> None:
        """Refuse every further use, in a forked child."""
        self._forked = True
        self.turns.clear()
        if self.fetched is not None:
            self.fetched.clear()

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Send bytes or Parts. Raises ZmqTimeoutError when no peer takes it, AuthenticationError."""
        try:
            self.turns.pop()
        except IndexError:
            raise self.why_not() from None
        try:
            if self.link.fault is not None:
                raise self.link.fault
            if type(message) is bytes and len(message) < self.small:
                try:
                    self.put(message)
                except zmq.ZMQError as error:
                    self.send_again(message, timeout, error)
            else:
                self._send_large(message, timeout)
            if self.link.alone:
                self.link.unsent += 1
        finally:
            self.turns.append(1)

    def send_again(self, message: bytes, timeout: float | None, error: zmq.ZMQError) -> None:
        """Go on with a send of a few bytes that failed so. Call between enter() and leave()."""
        if not isinstance(error, zmq.Again):
            raise self.failed(error) from error
        self.send_slowly(message, 0, True, timeout, 1)

    def answer(self, message: Parts) -> None:
        """Send between enter() and leave(), as a decoder does that refuses a request."""
        for index, part in enumerate(message):
            self.send_part(part, MORE if index < len(message) - 1 else 0, True, None)

    def check_size(self, message: Any) -> list[int]:
        """Return the bytes of each part.

        Raises MessageTooLargeError for a message that a receiver with the same limits would refuse.
        """
        limits = self.socket.limits
        parts: Any = message if isinstance(message, Parts) else (message,)
        sizes = [size(part) for part in parts]
        if (nbytes := sum(sizes)) > limits.message_bytes:
            raise MessageTooLargeError(
                f"{self.socket.address}: {nbytes} bytes, over Limits.message_bytes of {limits.message_bytes}"
            )
        if len(parts) > MAX_PARTS:
            raise MessageTooLargeError(
                f"{self.socket.address}: {len(parts)} parts; at most {MAX_PARTS} can be sent"
            )
        return sizes

    def _send_large(self, message: Any, timeout: float | None) -> None:
        self.check_size(message)
        if isinstance(message, Parts):
            last = len(message) - 1
            for index, part in enumerate(message):
                self.send_part(part, MORE if index < last else 0, not isinstance(part, bytes), timeout)
        else:
            self.send_part(message, 0, type(message) is not bytes, timeout)

    def send_part(self, part: Any, flags: int, copy: bool, timeout: float | None, track: bool = False) -> Any:
        """Send a frame, copied or not; return its tracker. Call between enter() and leave()."""
        copy = copy or size(part) < ZERO_COPY
        try:
            return self.put(part, flags, copy, track)
        except zmq.Again:
            return self.send_slowly(part, flags, copy, timeout, 1, track)
        except zmq.ZMQError as error:
            raise self.failed(error) from error

    def send_uncopied(self, message: Buffer | Parts, timeout: float | None) -> MessageTracker:
        """Send without copying large parts; the answer says when their memory may change again."""
        self.check_size(message)
        self.enter()
        try:
            if self.link.fault is not None:
                raise self.link.fault
            parts = message if isinstance(message, Parts) else [message]
            trackers: list[Any] = []
            for index, part in enumerate(parts):
                flags = MORE if index < len(parts) - 1 else 0
                if size(part) < ZERO_COPY:
                    self.send_part(part, flags, True, timeout)
                else:
                    trackers.append(self.send_part(part, flags, False, timeout, True))
            if self.link.alone:
                self.link.unsent += 1
            return MessageTracker(self.socket.address, trackers) if trackers else DONE
        finally:
            self.leave()

    def send_slowly(
        self, part: Any, flags: int, copy: bool, timeout: float | None, waited: int, track: bool = False
    ) -> Any:
        """Go on trying, slice by slice, after `waited` slices."""
        timeout = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout - (waited * self._wait_out / 1000)
        while True:
            self.check()
            if timeout >= 0:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self.late("a peer to take the message", timeout)
                self.wait_out(min(SLICE_MS, int(left * 1000) + 1))
            try:
                return self.put(part, flags, copy, track)
            except zmq.Again:
                continue
            except zmq.ZMQError as error:
                raise self.failed(error) from error
            finally:
                self.wait_out(SLICE_MS)

    def receive(self, timeout: float | None, waiting_for: str) -> tuple[Any, list[zmq.Frame]]:
        """Return the next message: its first frame and the others. Call between enter() and leave().

        While messages are small (`alone`) REQ and REP give bytes, at once: to make a Frame and ask it whether
        parts follow costs a tenth of a round trip. A caller that cannot read those bytes calls `whole`;
        parts that were not asked for are found by the next send.

        Raises ZmqTimeoutError, AuthenticationError, MalformedMessageError (the message is gone then).
        """
        timeout = self.timeout if timeout is None else timeout
        wait = self.slice_ms
        if 0 <= timeout < 1 and timeout * 1000 < wait:
            wait = int(timeout * 1000)
        if self._wait_in != wait:
            self.wait_in(wait)
        alone = self.alone
        try:
            frame = self.receive_part(0, alone)
        except zmq.Again:
            frame = self._receive_slowly(timeout, waiting_for, wait)
        except zmq.ZMQError as error:
            raise self.failed(error) from error
        if alone:
            if len(frame) >= LARGE:  # messages resemble the one before: the next is not copied
                self.alone = False
            return frame, _NO_FRAMES
        if frame.more:
            return frame, self.rest()
        self.alone = self.in_turn and len(frame) < LARGE
        return frame, _NO_FRAMES

    def whole(self, frame: Any, rest: list[zmq.Frame]) -> list[zmq.Frame]:
        """Return the other frames of a message, where `receive` did not ask for them."""
        if type(frame) is not bytes or not self.has_more():
            return rest
        self.alone = False
        return self.rest()

    def receive_quickly(self) -> Any:
        """Return the next message if it comes within a slice, else None; takes the turn itself.

        It is bytes where that is `alone`, else a Frame, or several in a list.
        """
        try:
            self.turns.pop()
        except IndexError:
            raise self.why_not() from None
        try:
            if self.alone:
                frame = self.receive_part(0, True)
                self.alone = len(frame) < LARGE
                return frame
            frame = self.receive_part(0, False)
            return frame if not frame.more else [frame, *self.rest()]
        except zmq.Again:
            self.after_slice()
            return None
        except zmq.ZMQError as error:
            raise self.failed(error) from error
        finally:
            self.turns.append(1)

    def bound_unread(self) -> None:
        """Disconnect peers that bring far more than `unread_bytes`. Call before the socket is established."""
        if self.link.budget is None and (most := self.socket.unread_bytes) and self.socket.scheme == "tcp":
            self.link.budget = ReceiveBudget(self, most + self.socket.limits.message_bytes)
            background_thread().watch(self.link.budget)

    def has_more(self) -> bool:
        """Return whether more parts follow the frame just received."""
        return bool(self.socket.unwrap().rcvmore)

    def _receive_slowly(self, timeout: float, waiting_for: str, waited: int) -> Any:
        """Go on waiting, slice by slice, after `waited` milliseconds."""
        deadline = time.monotonic() + timeout - waited / 1000
        while True:
            self.check()
            left = deadline - time.monotonic() if timeout >= 0 else 1.0
            if left < 0.001:
                raise self.late(waiting_for, timeout)
            self.wait_in(min(self.slice_ms, int(left * 1000)))
            try:
                return self.receive_part(0, self.alone)
            except zmq.Again:
                continue
            except zmq.ZMQError as error:
                raise self.failed(error) from error

    def receive_now(self) -> Any:
        """Return the next frame if one has arrived, else None. Call between enter() and leave()."""
        try:
            return self.receive_part(zmq.NOBLOCK, False)
        except zmq.Again:
            return None
        except zmq.ZMQError as error:
            raise self.failed(error) from error

    def rest(self) -> list[zmq.Frame]:
        """Return the further frames of a message; one that is over the limits is read and dropped."""
        frames: list[zmq.Frame] = []
        count = nbytes = 0
        limits = self.socket.limits
        while True:
            frame = self.receive_part(0, False)
            count += 1
            nbytes += len(frame)
            if count < MAX_PARTS and nbytes <= limits.message_bytes:
                frames.append(frame)
            else:
                frames.clear()
            if not frame.more:
                break
        if count >= MAX_PARTS or nbytes > limits.message_bytes:
            raise MalformedMessageError(
                f"{self.socket.address}: {nbytes} bytes in {count + 1} parts are over the limits"
            )
        return frames


def _forget() -> None:
    for guard in process.live(Wire):
        guard.forget()


process.after_fork(_forget)
