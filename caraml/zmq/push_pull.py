"""ZmqPusher and ZmqPuller: a queue; each message goes to one puller, at most once.

>>> puller = ZmqPuller(port=0, deserializer="msgpack")
>>> pusher = ZmqPusher(address=puller.address, serializer="msgpack")
>>> pusher.push({"step": 1})
>>> puller.pull(timeout=5)
{'step': 1}
>>> pusher.close(); puller.close()

**Guarantee.** Messages arrive at most once, in order from one pusher to one puller. A message is lost if its
puller dies before handling it, or the pusher before it is sent; ZmqSender is for messages that must arrive.
A push blocks, up to its deadline, while all pullers are at their high-water mark (`hwm=`). A pusher that is
closed while no puller is connected logs a warning with the number of messages since the last puller left.
"""

from typing import Any, Unpack

import zmq

from caraml import serializers
from caraml.errors import MalformedMessageError
from caraml.utils.serializer import get_deserializer, get_serializer
from caraml.zmq.endpoint import Endpoint, EndpointOptions


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

    def _prepare(self) -> None:
        # A PUSH that binds blocks without pullers, and so has no unsent messages.
        if not self._bind and self.socket.scheme != "inproc":
            self.socket.link.count_unsent()

    def push(self, data: Any, timeout: float | None = None) -> None:
        """Send one message; `data` may be changed afterwards.

        A connecting pusher keeps messages, up to its `hwm`, while no puller is there; a bound one waits for a
        puller. `timeout` in seconds, negative for ever; by default the socket's. Raises ZmqTimeoutError if
        the push still waits then, AuthenticationError, EncodeError (MessageTooLargeError).
        """
        self._wire.send(data if self._encode is None else self._encode(data), timeout)


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
        super().__init__(zmq.PULL, bind, options)
        self._decode = serializers.decoder(deserializer, self.socket)
        self._gives_bytes = self._decode is serializers.decode_bytes
        self.deserializer = get_deserializer(deserializer)

    def pull(self, timeout: float | None = None) -> Any:
        """Return the next message. Raises ZmqTimeoutError, AuthenticationError.

        `timeout` in seconds, negative for ever; by default the socket's.
        """
        wire = self._wire
        if timeout is not None or wire.timeout >= 0:
            return self._next(self._decode, timeout, "a message")
        while True:
            try:
                frame = wire.receive_quickly()
                if type(frame) is list:
                    return self._decode(frame[0], frame[1:])  # pyright: ignore[reportUnknownArgumentType]
                if frame is not None:
                    return frame.bytes if self._gives_bytes else self._decode(frame, ())
            except MalformedMessageError as error:
                self._reject(error)
