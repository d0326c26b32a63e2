"""ZmqPusher and ZmqPuller: a queue from many to many, each message to one puller, at most once.

>>> puller = ZmqPuller(port=0, deserializer="msgpack")
>>> pusher = ZmqPusher(address=puller.address, serializer="msgpack")
>>> pusher.push({"step": 1})
>>> puller.pull(timeout=5)
{'step': 1}
>>> pusher.push_many([1, 2, 3])
>>> [puller.pull(timeout=5) for _ in range(3)]
[1, 2, 3]
>>> pusher.close(); puller.close()

**Promise.** At most once, in order from one pusher to one puller. A message is lost when the puller it was
handed to dies, or when the pusher's machine does; ZmqSender is for what must not be lost. A push blocks while
no puller takes more (high-water mark, `hwm=` messages each side), up to the deadline. A pusher that is closed
while no puller is connected logs a warning with the number of messages that it took since the last one was.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Annotated, Any, Unpack

import msgspec
import zmq

from caraml import serializers
from caraml.codec.parts import BATCH, Inline, Parts
from caraml.errors import MalformedMessageError
from caraml.transport.socket import ZmqSocket
from caraml.transport.wire import DONE, MessageTracker
from caraml.utils.serializer import get_deserializer, get_serializer
from caraml.zmq.endpoint import Endpoint, SocketOptions

BATCH_BYTES = 1 << 20
_ITEM_BYTES = 64  # what an item costs the puller beside its bytes
_MOST_ITEMS = BATCH_BYTES // _ITEM_BYTES
_MOST_BATCH_BYTES = 3 * BATCH_BYTES  # one batch, one item more, and msgpack's heads
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Annotated[list[bytes], msgspec.Meta(max_length=_MOST_ITEMS)]).decode


class ZmqPusher(Endpoint):
    """Sends to the pullers in turn; connects unless `bind=True`. Keywords as ZmqSocket's, and:

    `serializer` (see caraml.serializers; also an attribute, as a function), `callback(socket)` called before
    bind or connect, `timeout` seconds that one push may block (negative: for ever).
    """

    def __init__(
        self,
        *,
        bind: bool = False,
        serializer: serializers.Serializer = None,
        callback: Callable[[ZmqSocket], object] | None = None,
        timeout: float = -1,
        **options: Unpack[SocketOptions],
    ) -> None:
        super().__init__(zmq.PUSH, bind, callback, timeout, options)
        self._encode = serializers.encoder(serializer, self.socket)
        self.serializer = get_serializer(serializer)
        self._batch_bytes = min(BATCH_BYTES, self.socket.limits.message_bytes // 4)
        self._batch_items = max(1, self._batch_bytes // _ITEM_BYTES)

    def _prepare(self) -> None:
        if not self._bind and self.socket.scheme != "inproc":
            self.socket.link.count_unsent()

    def push(self, data: Any, timeout: float | None = None) -> None:
        """Send one message; `data` may be changed afterwards.

        `timeout`: seconds, negative for ever; by default the socket's.
        Raises ZmqTimeoutError when no puller takes it in time, AuthenticationError, EncodeError
        (MessageTooLargeError).
        """
        self._wire.send(data if self._encode is None else self._encode(data), timeout)

    def push_uncopied(self, data: Any, timeout: float | None = None) -> MessageTracker:
        """Send one message without copying the arrays of `data` of 256 KiB or more (smaller ones are copied,
        which is faster): leave them alone until the answer is `done`. `timeout` and errors as of `push`.

        Over inproc, where the puller would be given the arrays themselves, they are copied.
        """
        message = data if self._encode is None else self._encode(data)
        if self.socket.scheme == "inproc":
            self._wire.send(message, timeout)
            return DONE
        return self._wire.send_uncopied(message, timeout)

    def push_many(self, items: Iterable[Any], timeout: float | None = None) -> None:
        """Send many small messages to one puller in as few frames as possible: several times faster than one
        by one.

        `pull` gives them back one by one. Large items go as messages of their own, in order. `timeout` and
        errors as of `push`, for each frame.
        """
        source = iter(items if self._encode is None else map(self._encode, items))
        most = self._batch_bytes
        while True:
            batch: list[bytes] = []
            alone: list[Any] = []
            nbytes = 0
            for item in islice(source, self._batch_items):
                if type(item) is not bytes or (length := len(item)) >= most:
                    alone.append(item)
                    break
                batch.append(item)
                nbytes += length
                if nbytes >= most:
                    break
            if not batch and not alone:
                return
            self._send_batch(batch, timeout)
            for item in alone:
                self._wire.send(item, timeout)

    def _send_batch(self, batch: list[bytes], timeout: float | None) -> None:
        if batch:
            self._wire.send(Parts((BATCH, _pack(batch))), timeout)
            if self.socket.link.alone:
                self.socket.link.unsent += len(batch) - 1


class ZmqPuller(Endpoint):
    """Receives from the pushers; binds unless `bind=False`. Keywords as ZmqSocket's, and:

    `deserializer` (see caraml.serializers; also an attribute, as a function), `callback(socket)` called
    before bind or connect, `timeout` seconds that one pull may block (negative: for ever).

    Messages that cannot be decoded are dropped and counted in `rejected`; the first is logged.
    """

    def __init__(
        self,
        *,
        bind: bool = True,
        deserializer: serializers.Serializer = None,
        callback: Callable[[ZmqSocket], object] | None = None,
        timeout: float = -1,
        **options: Unpack[SocketOptions],
    ) -> None:
        self._batch: deque[Any] = deque()
        super().__init__(zmq.PULL, bind, callback, timeout, options)
        self._wire.fetched = self._batch
        self._decode_one = serializers.decoder(deserializer, self.socket)
        self._gives_bytes = self._decode_one is serializers.decode_bytes
        self.deserializer = get_deserializer(deserializer)

    def pull(self, timeout: float | None = None) -> Any:
        """Return the next message. Raises ZmqTimeoutError, AuthenticationError.

        `timeout`: seconds, negative for ever; by default the socket's.
        """
        if self._batch:
            return self._batch.popleft()
        wire = self._wire
        if timeout is not None or wire.timeout >= 0:
            return self._next(self._decode, timeout, "a message")
        while True:
            frame = wire.receive_quickly()
            try:
                if type(frame) is list:
                    return self._decode(frame[0], frame[1:])  # pyright: ignore[reportUnknownArgumentType]
                if frame is not None:
                    return frame.bytes if self._gives_bytes else self._decode_one(frame, ())
            except MalformedMessageError as error:
                self._reject(error)

    def _decode(self, frame: Any, rest: list[zmq.Frame]) -> Any:
        if len(rest) == 1 and len(frame) == len(BATCH) and frame.bytes == BATCH:
            return self._open_batch(rest[0])
        return self._decode_one(frame, rest)

    def _open_batch(self, packed: zmq.Frame) -> Any:
        if len(packed) > _MOST_BATCH_BYTES:
            raise MalformedMessageError(f"a batch of {len(packed)} bytes; the maximum is {_MOST_BATCH_BYTES}")
        try:
            items = _unpack(packed.buffer)
        except msgspec.MsgspecError as error:
            raise MalformedMessageError(f"not a batch: {error}") from None
        if not items:
            raise MalformedMessageError("an empty batch")
        if self._gives_bytes:
            decoded: list[Any] = items
        else:
            decoded = [self._decode_one(Inline(item), ()) for item in items]
        self._batch.extend(decoded[1:])
        return decoded[0]
