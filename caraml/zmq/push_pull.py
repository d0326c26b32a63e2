"""ZmqPusher and ZmqPuller: a queue; each message goes to one puller, at most once.

>>> puller = ZmqPuller(port=0, deserializer="msgpack")
>>> pusher = ZmqPusher(address=puller.address, serializer="msgpack")
>>> pusher.push({"step": 1})
>>> puller.pull(timeout=5)
{'step': 1}
>>> pusher.push_many([1, 2, 3])
>>> [puller.pull(timeout=5) for _ in range(3)]
[1, 2, 3]
>>> pusher.close(); puller.close()

**Guarantee.** Messages arrive at most once, in order from one pusher to one puller. A message is lost if its
puller dies before handling it, or when the pusher's machine dies; ZmqSender is for messages that must arrive.
A push blocks, up to its deadline, while all pullers are at their high-water mark (`hwm=`). A pusher that is
closed while no puller is connected logs a warning with the number of messages since the last puller left.
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any, Unpack

import msgspec
import zmq

from caraml import serializers
from caraml.codec.parts import BATCH, Inline, Parts
from caraml.errors import MalformedMessageError
from caraml.transport.wire import MessageTracker
from caraml.utils.serializer import get_deserializer, get_serializer
from caraml.zmq.endpoint import Endpoint, EndpointOptions

BATCH_BYTES = 1 << 20
_ITEM_OVERHEAD = 64  # bytes that an item costs the puller beside its own
_MAX_ITEMS = BATCH_BYTES // _ITEM_OVERHEAD
_MAX_BATCH_BYTES = 3 * BATCH_BYTES  # a batch, one item more, and msgpack's headers
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Annotated[list[bytes], msgspec.Meta(max_length=_MAX_ITEMS)]).decode


class ZmqPusher(Endpoint):
    """Sends to the pullers in turn; connects unless `bind=True`. It takes the keywords of ZmqSocket, and:

    `serializer` (see caraml.serializers; the attribute is the function), `callback(socket)` called before
    bind or connect, `timeout` seconds that one push may block (negative: for ever).
    """

    def __init__(
        self,
        *,
        bind: bool = False,
        serializer: serializers.Serializer = None,
        **options: Unpack[EndpointOptions],
    ) -> None:
        super().__init__(zmq.PUSH, bind, options)
        self._encode = serializers.encoder(serializer, self.socket)
        self.serializer = get_serializer(serializer)
        self._batch_bytes = min(BATCH_BYTES, self.socket.limits.message_bytes // 4)
        self._batch_items = max(1, self._batch_bytes // _ITEM_OVERHEAD)

    def _prepare(self) -> None:
        if not self._bind and self.socket.scheme != "inproc":
            self.socket.link.count_unsent()

    def push(self, data: Any, timeout: float | None = None) -> None:
        """Send one message; `data` may be changed afterwards.

        `timeout` in seconds, negative for ever; by default the socket's. Raises ZmqTimeoutError if no puller
        takes the message in time, AuthenticationError, EncodeError (MessageTooLargeError).
        """
        self._wire.send(data if self._encode is None else self._encode(data), timeout)

    def push_uncopied(self, data: Any, timeout: float | None = None) -> MessageTracker:
        """Send one message without copying the arrays of `data` of 256 KiB or more.

        Do not change these arrays until the returned tracker is `done`. Over inproc, where the puller would
        share them, they are copied. `timeout` and errors as for `push`.
        """
        return self._wire.send_uncopied(data if self._encode is None else self._encode(data), timeout)

    def push_many(self, items: Iterable[Any], timeout: float | None = None) -> None:
        """Send many small messages in batches, which is several times faster than one by one.

        A batch goes to one puller, whose `pull` returns the messages one by one. Large items are sent by
        themselves, in order. `timeout` and errors as for `push`, for each batch.
        """
        source = iter(items if self._encode is None else map(self._encode, items))
        max_bytes = self._batch_bytes
        while True:
            batch: list[bytes] = []
            large: list[Any] = []  # the item that ended the batch, if it cannot be in one
            nbytes = 0
            for item in islice(source, self._batch_items):
                if type(item) is not bytes or (length := len(item)) >= max_bytes:
                    large.append(item)
                    break
                batch.append(item)
                nbytes += length
                if nbytes >= max_bytes:
                    break
            if not batch and not large:
                return
            self._send_batch(batch, timeout)
            for item in large:
                self._wire.send(item, timeout)

    def _send_batch(self, batch: list[bytes], timeout: float | None) -> None:
        if batch:
            self._wire.send(Parts((BATCH, _pack(batch))), timeout)
            if self.socket.link.counting_unsent:
                self.socket.link.unsent += len(batch) - 1


class ZmqPuller(Endpoint):
    """Receives from the pushers; binds unless `bind=False`. It takes the keywords of ZmqSocket, and:

    `deserializer` (see caraml.serializers; the attribute is the function), `callback(socket)` called
    before bind or connect, `timeout` seconds that one pull may block (negative: for ever).

    Messages that cannot be decoded are dropped and counted in `rejected`; the first is logged.
    """

    def __init__(
        self,
        *,
        bind: bool = True,
        deserializer: serializers.Serializer = None,
        **options: Unpack[EndpointOptions],
    ) -> None:
        self._batch: deque[Any] = deque()
        super().__init__(zmq.PULL, bind, options)
        self._wire.fetched = self._batch
        self._decode_one = serializers.decoder(deserializer, self.socket)
        self._gives_bytes = self._decode_one is serializers.decode_bytes
        self.deserializer = get_deserializer(deserializer)

    def pull(self, timeout: float | None = None) -> Any:
        """Return the next message. Raises ZmqTimeoutError, AuthenticationError.

        `timeout` in seconds, negative for ever; by default the socket's.
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
        if len(packed) > _MAX_BATCH_BYTES:
            raise MalformedMessageError(f"a batch has {len(packed)} bytes; the maximum is {_MAX_BATCH_BYTES}")
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
