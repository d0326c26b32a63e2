"""Wire: sends and receives messages over a ZmqSocket in the calling thread.

A Wire adds deadlines, limits on messages, a check that one thread uses the socket at a time, and a close that
waits no longer than it is told to.
"""

import logging
import time
from collections import deque
from typing import Any, SupportsIndex

import zmq

from caraml import process
from caraml.codec.parts import Parts, size
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


class _NoMoreTurns(list[int]):
    """The turns of a socket that is being closed: calls can return them, but not take one."""

    __slots__ = ()

    def pop(self, index: SupportsIndex = -1, /) -> int:
        raise IndexError


class Wire:
    """Sends and receives the messages of one socket, for one thread at a time.

    Timeouts are in seconds; negative waits for ever, None is the socket's own. A call that waits checks every
    quarter of a second whether the peer refuses the connection and whether the interpreter exits.
    """

    def __init__(self, socket: ZmqSocket, timeout: float = _FOREVER) -> None:
        raw = socket.unwrap()
        self.socket = socket
        self.link = socket.link
        self.timeout = timeout
        # ZmqSender.at_exit sets `exiting`: its waits go on while the interpreter exits.
        self.exiting = self.closing = False
        self.fetched: deque[Any] | None = None  # what an endpoint has read ahead; emptied after a fork
        self.unchecked_bytes = min(ZERO_COPY, socket.limits.message_bytes + 1)  # smaller ones fit the limits
        self.slice_ms = SLICE_MS  # for receives; a client with a heartbeat makes it shorter
        self.lost_before: int | None = None  # lost connections before a request; one more ends its wait
        # REQ and REP refuse to send while parts of a message are unread: `receive` need not ask for them.
        self.lockstep = self.single_frame = socket.socket_mode in (zmq.REQ, zmq.REP)
        # The methods below pyzmq's draft-option layer, which takes a third of a call's time.
        self.put: Any = super(zmq.Socket, raw).send
        self.receive_part: Any = super(zmq.Socket, raw).recv
        self.receive_uncounted = self.receive_part  # a ReceiveBudget replaces `receive_part` at times
        self._receive_ms = self._send_ms = SLICE_MS
        raw.rcvtimeo = raw.sndtimeo = SLICE_MS
        socket.record_wire_timeouts(SLICE_MS, SLICE_MS)
        self.turns: list[int] = [1]  # the one turn; a call takes it, so that another thread finds none
        self._former_turns: list[int] = []
        self._forked = False
        process.close_at_exit(self)

    def __enter__(self) -> None:
        """Reserve the socket for this thread. Raises ConcurrentUseError, ForkedError, ClosedError."""
        try:
            self.turns.pop()
        except IndexError:
            raise self.unusable_error() from None

    def __exit__(self, *_: object) -> None:
        """Release the socket."""
        self.turns.append(1)

    def unusable_error(self) -> Exception:
        """Return the error for a call that finds the socket in use, closed, or from before a fork."""
        if self._forked:
            return ForkedError(f"{self.socket.address}: made before the fork; make a new one in the child")
        if self.closing or self.socket.unwrap().closed:
            return ClosedError(f"{self.socket.address}: the socket is closed")
        return ConcurrentUseError(
            f"{self.socket.address}: used by two threads at the same time; give each thread its own socket"
        )

    def after_slice(self) -> None:
        """Check the connection after a receive that timed out. Raises the errors of `check`."""
        self.check()
        self.set_receive_timeout(self.slice_ms)

    def check(self) -> None:
        """Raise AuthenticationError, PeerLostError or ClosedError; waiting calls do so once a slice."""
        if process.closing() and not self.exiting:
            raise SystemExit  # ends a waiting daemon thread silently
        if self.closing:
            raise self.unusable_error()
        if self.link.fault is not None:
            raise self.link.fault
        if self.lost_before is not None and self.link.lost > self.lost_before:
            waited_for = "an answer, but the connection was lost; the request may have been served"
            raise PeerLostError(self.socket.address, waited_for)

    def set_receive_timeout(self, milliseconds: int) -> None:
        """Set how long one receive blocks."""
        if self._receive_ms != milliseconds:
            self.socket.unwrap().rcvtimeo = self._receive_ms = milliseconds
            self.socket.record_wire_timeouts(self._receive_ms, self._send_ms)

    def set_send_timeout(self, milliseconds: int) -> None:
        """Set how long one send blocks."""
        if self._send_ms != milliseconds:
            self.socket.unwrap().sndtimeo = self._send_ms = milliseconds
            self.socket.record_wire_timeouts(self._receive_ms, self._send_ms)

    def timeout_error(self, waited_for: str, timeout: float) -> ZmqTimeoutError:
        """Return the error for a missed deadline; its cause is the last refused peer, if any."""
        error = ZmqTimeoutError(self.socket.address, waited_for, timeout)
        if self.link.denied:
            error.__cause__ = self.link.denied[-1]
        return error

    def socket_error(self, error: zmq.ZMQError) -> Exception:
        """Return the caraml error for a ZeroMQ error; drop unread parts, so that the socket stays usable."""
        if error.errno == zmq.EFSM and self.has_more():
            parts = 1 + len(self.receive_rest())
            return MalformedMessageError(
                f"{self.socket.address}: the peer sent {parts} parts where one was expected;"
                " the deserializer must match the peer's serializer"
            )
        if error.errno in (zmq.ENOTSOCK, zmq.ETERM):
            return ClosedError(f"{self.socket.address}: the socket is closed")
        return SocketError(error.errno, f"{self.socket.address}: cannot send or receive: {error.strerror}")

    def close(self, linger: float | None = None) -> None:
        """Close; unsent messages get `linger` seconds (None: as the socket's option says).

        A call of another thread ends with ClosedError. Raises ConcurrentUseError if that call does not
        return, for example from a slow deserializer.
        """
        wait = CLOSE_WAIT if linger is None or linger < 0 else min(CLOSE_WAIT, linger)
        give_up = time.monotonic() + wait
        while (
            self.link.waiting_messages() and linger != 0 and not self.closing and time.monotonic() < give_up
        ):
            time.sleep(0.001)  # a peer may be connecting; the close stops the monitor
        give_up = time.monotonic() + CLOSE_WAIT
        while not self._try_to_close(linger):
            if time.monotonic() > give_up:
                raise ConcurrentUseError(
                    f"{self.socket.address}: could not close: a call in another thread does not return"
                )
            time.sleep(0.001)

    def _try_to_close(self, linger: float | None) -> bool:
        """Close once no other thread is in a call, which `check` ends; return whether it is closed."""
        if self._forked or self.socket.unwrap().closed:
            return True
        if not self.closing:
            self.closing = True
            self._former_turns, self.turns = self.turns, _NoMoreTurns()
        if not self.turns:  # no call has returned the turn since
            try:
                self._former_turns.pop()
            except IndexError:
                return False
        self.turns.clear()
        if (unsent := self.link.waiting_messages()) and linger != 0:
            log.warning(
                "%s: closed with %d unsent %s: no peer is connected; they are lost unless one connects "
                "within the linger time, before this process ends",
                self.socket.address,
                unsent,
                "message" if unsent == 1 else "messages",
            )
            if process.closing():
                linger = 0  # at_exit has waited already
        self.socket.close(None if linger is None else int(linger * 1000))
        return True

    def at_exit(self, stage: int) -> bool:
        """Close in stage 2; return True to be called again: a peer may yet connect, or a call still runs."""
        if stage != 2:
            return False
        if self.link.waiting_messages() and process.exiting_for() < process.EXIT_LINGER_MS / 1000:
            return True
        return not self._try_to_close(process.EXIT_LINGER_MS / 1000)

    def in_use(self) -> bool:
        """Return whether another thread still uses the socket."""
        return not self.turns and not self.socket.unwrap().closed

    def forget(self) -> None:
        """Refuse every further use, in a forked child; the socket is not closed there."""
        self._forked = True
        self.turns.clear()
        if self.fetched is not None:
            self.fetched.clear()

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Send bytes or Parts. Raises ZmqTimeoutError if no peer takes it in time, AuthenticationError."""
        try:
            self.turns.pop()
        except IndexError:
            raise self.unusable_error() from None
        try:
            if self.link.fault is not None:
                raise self.link.fault
            if type(message) is bytes and len(message) < self.unchecked_bytes:
                self._limit_first_slice(timeout)
                try:
                    self.put(message)
                except zmq.ZMQError as error:
                    self.retry_send(message, timeout, error)
            else:
                self.check_size(message)
                self.send_parts(message, timeout, copy=True)
            if self.link.counting_unsent:
                self.link.unsent += 1
        finally:
            self.turns.append(1)

    def retry_send(self, message: bytes, timeout: float | None, error: zmq.ZMQError) -> None:
        """Handle the error of a send: retry, or raise. Call inside `with wire`."""
        if not isinstance(error, zmq.Again):
            raise self.socket_error(error) from error
        self.send_in_slices(message, 0, True, timeout)

    def check_size(self, message: Any) -> None:
        """Raise MessageTooLargeError for a message over the limits."""
        limits = self.socket.limits
        parts: Any = message if isinstance(message, Parts) else (message,)
        if (nbytes := sum(map(size, parts))) > limits.message_bytes:
            raise MessageTooLargeError(
                f"{self.socket.address}: cannot send a message of {nbytes} bytes, more than"
                f" Limits.message_bytes ({limits.message_bytes})"
            )
        if len(parts) > MAX_PARTS:
            raise MessageTooLargeError(
                f"{self.socket.address}: {len(parts)} parts; at most {MAX_PARTS} can be sent"
            )

    def _limit_first_slice(self, timeout: float | None) -> None:
        """Let the next send block at most for the timeout: not at all for 0."""
        timeout = self.timeout if timeout is None else timeout
        wait = int(timeout * 1000) if 0 <= timeout * 1000 < SLICE_MS else SLICE_MS
        if self._send_ms != wait:
            self.set_send_timeout(wait)

    def send_part(self, part: Any, flags: int, copy: bool, timeout: float | None) -> None:
        """Send a frame, copied or not. Call inside `with wire`."""
        self._limit_first_slice(timeout)
        try:
            self.put(part, flags, copy)
        except zmq.Again:
            self.send_in_slices(part, flags, copy, timeout)
        except zmq.ZMQError as error:
            raise self.socket_error(error) from error

    def send_parts(self, message: Any, timeout: float | None, copy: bool) -> None:
        """Send bytes or Parts; small parts are copied, and large bytes are not. Call inside `with wire`."""
        parts = message if isinstance(message, Parts) else (message,)
        for left, part in zip(reversed(range(len(parts))), parts, strict=True):
            copied = size(part) < ZERO_COPY or (copy and type(part) is not bytes)
            self.send_part(part, MORE if left else 0, copied, timeout)

    def send_in_slices(self, part: Any, flags: int, copy: bool, timeout: float | None) -> None:
        """Retry a send in slices; the first slice has passed."""
        timeout = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout - self._send_ms / 1000
        while True:
            self.check()
            if timeout >= 0:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self.timeout_error("a peer to take the message", timeout)
                self.set_send_timeout(min(SLICE_MS, int(min(left, 1.0) * 1000) + 1))
            try:
                self.put(part, flags, copy)
                return
            except zmq.Again:
                continue
            except zmq.ZMQError as error:
                raise self.socket_error(error) from error
            finally:
                self.set_send_timeout(SLICE_MS)

    def receive(self, timeout: float | None, waiting_for: str) -> tuple[Any, list[zmq.Frame]]:
        """Return the first frame of the next message, and its other frames. Call inside `with wire`.

        REQ and REP return small messages (`single_frame`) as bytes: creating a Frame and asking it whether
        parts follow costs a tenth of a round trip. A caller that cannot decode the bytes calls
        `receive_missing_rest`; otherwise the next send reports unread parts.

        Raises ZmqTimeoutError, AuthenticationError, MalformedMessageError (the message is dropped then).
        """
        timeout = self.timeout if timeout is None else timeout
        wait = self.slice_ms
        if 0 <= timeout < 1 and timeout * 1000 < wait:
            wait = int(timeout * 1000)
        if self._receive_ms != wait:
            self.set_receive_timeout(wait)
        single_frame = self.single_frame
        try:
            frame = self.receive_part(0, single_frame)
        except zmq.Again:
            frame = self._receive_in_slices(timeout, waiting_for, wait)
        except zmq.ZMQError as error:
            raise self.socket_error(error) from error
        if single_frame:
            if len(frame) >= LARGE:  # the next one is probably as large, and not copied then
                self.single_frame = False
            return frame, _NO_FRAMES
        if frame.more:
            return frame, self.receive_rest()
        self.single_frame = self.lockstep and len(frame) < LARGE
        return frame, _NO_FRAMES

    def receive_missing_rest(self, frame: Any, rest: list[zmq.Frame]) -> list[zmq.Frame]:
        """Return the other frames of a message that `receive` returned as bytes."""
        if type(frame) is not bytes or not self.has_more():
            return rest
        self.single_frame = False
        return self.receive_rest()

    def receive_quickly(self) -> Any:
        """Return the next message if it arrives within a slice, else None. Call outside of `with wire`.

        It is bytes if `single_frame`, else a Frame, or a list of frames.
        """
        try:
            self.turns.pop()
        except IndexError:
            raise self.unusable_error() from None
        try:
            if self.single_frame:
                frame = self.receive_part(0, True)
                self.single_frame = len(frame) < LARGE
                return frame
            frame = self.receive_part(0, False)
            return frame if not frame.more else [frame, *self.receive_rest()]
        except zmq.Again:
            self.after_slice()
            return None
        except zmq.ZMQError as error:
            raise self.socket_error(error) from error
        finally:
            self.turns.append(1)

    def bound_unread(self) -> None:
        """Disconnect peers that exceed `max_unread_bytes`. Call before the socket is established."""
        most = self.socket.max_unread_bytes
        if self.link.budget is None and most and self.socket.scheme == "tcp":
            self.link.budget = ReceiveBudget(self, most + self.socket.limits.message_bytes)
            background_thread().add_periodic(self.link.budget)

    def has_more(self) -> bool:
        """Return whether more parts follow the last received frame."""
        return bool(self.socket.unwrap().rcvmore)

    def _receive_in_slices(self, timeout: float, waiting_for: str, waited_ms: int) -> Any:
        """Receive in slices; `waited_ms` of the timeout have passed."""
        deadline = time.monotonic() + timeout - waited_ms / 1000
        while True:
            self.check()
            left = deadline - time.monotonic() if timeout >= 0 else 1.0
            if left < 0.001:
                raise self.timeout_error(waiting_for, timeout)
            self.set_receive_timeout(min(self.slice_ms, int(min(left, 1.0) * 1000)))
            try:
                return self.receive_part(0, self.single_frame)
            except zmq.Again:
                continue
            except zmq.ZMQError as error:
                raise self.socket_error(error) from error

    def receive_now(self) -> Any:
        """Return a frame that has arrived, else None. Call inside `with wire`."""
        try:
            return self.receive_part(zmq.NOBLOCK, False)
        except zmq.Again:
            return None
        except zmq.ZMQError as error:
            raise self.socket_error(error) from error

    def receive_rest(self) -> list[zmq.Frame]:
        """Return the other frames of a message. Raises MalformedMessageError if it is over the limits."""
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
                f"{self.socket.address}: the peer sent {nbytes} bytes in {count + 1} parts; the maximum is"
                f" {limits.message_bytes} bytes (Limits.message_bytes) in {MAX_PARTS} parts"
            )
        return frames


def _forget() -> None:
    for wire in process.live_resources(Wire):
        wire.forget()


process.after_fork(_forget)
