"""The calling-thread fast path: one message out, one message in, each with a deadline.

A Wire adds to a ZmqSocket: deadlines, the rule that one thread uses it at a time, the limits on what arrives,
and an end that waits for nobody longer than asked.
"""

import time
from typing import Any

import zmq

from caraml.codec.parts import Buffer, Parts, size
from caraml.errors import MalformedMessageError, MessageTooLargeError
from caraml.transport.background import background_thread
from caraml.transport.message_tracker import DONE, MessageTracker
from caraml.transport.receive_budget import ReceiveBudget
from caraml.transport.socket_guard import SLICE_MS, ZERO_COPY, SocketGuard

LARGE = 1 << 13
MORE = int(zmq.SNDMORE)


class Wire(SocketGuard):
    """One socket's messages, both ways."""

    __slots__ = ()

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Send bytes or Parts. Raises ZmqTimeoutError when no peer takes it, AuthenticationError."""
        try:
            self.turns.pop()
        except IndexError:
            raise self.why_not() from None
        try:
            if self.link.fault is not None:
                raise self.link.fault
            if self.link.queued is not None:
                self.link.queued += 1
            if type(message) is bytes and len(message) < self.small:
                try:
                    self.put(message)
                except zmq.Again:
                    self.send_slowly(message, 0, True, timeout, 1)
                except zmq.ZMQError as error:
                    raise self.failed(error) from error
            else:
                self._send_large(message, timeout)
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
        """The bytes of each part. Raises MessageTooLargeError for what a receiver with the same limits would
        refuse.
        """
        limits = self.socket.limits
        parts: Any = message if isinstance(message, Parts) else (message,)
        sizes = [size(part) for part in parts]
        if (nbytes := sum(sizes)) > limits.message_bytes:
            raise MessageTooLargeError(
                f"{self.socket.address}: {nbytes} bytes, over Limits.message_bytes of {limits.message_bytes}"
            )
        if len(parts) > limits.parts:
            raise MessageTooLargeError(
                f"{self.socket.address}: {len(parts)} parts, over Limits.parts of {limits.parts}"
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

    def send_small(self, part: bytes, timeout: float | None) -> None:
        """One frame of few bytes, the last one. Call between enter() and leave()."""
        try:
            self.put(part)
        except zmq.Again:
            self.send_slowly(part, 0, True, timeout, 1)
        except zmq.ZMQError as error:
            raise self.failed(error) from error

    def send_part(self, part: Any, flags: int, copy: bool, timeout: float | None) -> None:
        """One frame, copied or not. Call between enter() and leave()."""
        copy = copy or size(part) < ZERO_COPY
        try:
            self.put(part, flags, copy)
        except zmq.Again:
            self.send_slowly(part, flags, copy, timeout, 1)
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
                    trackers.append(self.send_tracked(part, flags, timeout))
            return MessageTracker(self.socket.address, trackers) if trackers else DONE
        finally:
            self.leave()

    def send_tracked(self, part: Any, flags: int, timeout: float | None) -> Any:
        """One frame, not copied; the tracker of its memory. Call between enter() and leave()."""
        try:
            return self.put(part, flags, False, True)
        except zmq.Again:
            return self.send_slowly(part, flags, False, timeout, 1, True)
        except zmq.ZMQError as error:
            raise self.failed(error) from error

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
        """The next message: its first frame and the others. Call between enter() and leave().

        While messages are small (`alone`) REQ and REP give bytes, at once: to make a Frame and ask it whether
        parts follow costs a tenth of a round trip. Whoever cannot read those bytes calls `whole`; parts that
        nobody wants are found by the next send.

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
        """The other frames of a message that `receive` gave so, where it did not ask for them."""
        if type(frame) is not bytes or not self.has_more():
            return rest
        self.alone = False
        return self.rest()

    def receive_quickly(self) -> Any:
        """The next message if it comes within a slice, else None; takes the turn itself.

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
        """Disconnect who brings far more than the socket's `unread_bytes`. Call before it is established."""
        if self.link.budget is None and (most := self.socket.unread_bytes) and self.socket.scheme == "tcp":
            self.link.budget = ReceiveBudget(self, most + self.socket.limits.message_bytes)
            background_thread().watch(self.link.budget)

    def has_more(self) -> bool:
        """Whether more parts follow the frame just received."""
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

    def failed(self, error: zmq.ZMQError) -> Exception:
        """What ZeroMQ's own error is to the caller. Parts that were left are dropped: it can go on."""
        if error.errno == zmq.EFSM and self.has_more():
            parts = 1 + len(self.rest())
            return MalformedMessageError(f"{self.socket.address}: {parts} parts where one was expected")
        return super().failed(error)

    def receive_now(self) -> Any:
        """The next frame if one is here, else None. Call between enter() and leave()."""
        try:
            return self.receive_part(zmq.NOBLOCK, False)
        except zmq.Again:
            return None
        except zmq.ZMQError as error:
            raise self.failed(error) from error

    def rest(self) -> list[zmq.Frame]:
        """The further frames of a message, within the limits; beyond them they are read and dropped."""
        frames: list[zmq.Frame] = []
        count = nbytes = 0
        limits = self.socket.limits
        while True:
            frame = self.receive_part(0, False)
            count += 1
            nbytes += len(frame)
            if count < limits.parts and nbytes <= limits.message_bytes:
                frames.append(frame)
            else:
                frames.clear()
            if not frame.more:
                break
        if count >= limits.parts or nbytes > limits.message_bytes:
            raise MalformedMessageError(
                f"{self.socket.address}: {nbytes} bytes in {count + 1} parts, over the limits"
            )
        return frames


_NO_FRAMES: list[zmq.Frame] = []
