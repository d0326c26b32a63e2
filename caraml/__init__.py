"""ZeroMQ messaging for Python programs: queues, requests, acknowledged delivery, topics and shared memory.

>>> import caraml
>>> puller = caraml.ZmqPuller(port=0, deserializer="msgpack")
>>> pusher = caraml.ZmqPusher(address=puller.address, serializer="msgpack")
>>> pusher.push({"reward": 1.0})
>>> puller.pull(timeout=5)
{'reward': 1.0}
>>> pusher.close(); puller.close()

Under symphony a socket needs no address: `ZmqPuller(service="replay-server")` binds what `process.binds(...)`
declared and `ZmqPusher(service="replay-server")` connects to it.

| pattern | classes | promise |
|---|---|---|
| queue | ZmqPusher, ZmqPuller | at most once |
| request, reply | ZmqClient, ZmqServer | this answer or an error, within its `timeout` |
| acknowledged | ZmqSender, ZmqReceiver | nothing lost while the sender lives |
| topics | ZmqPub, ZmqSub | to subscribers that keep up; drop, latest or block |
| forwarding | ZmqProxy, ZmqProxyThread, ZmqProxyProcess | - |
| shared memory | SharedPool, DataFetcher, caraml.inmemory | one host |

The module of each class states its promise in full. The library logs to the logger `caraml`; in a program
that does not set up logging, Python prints the warnings to standard error.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from caraml.codec import decode as decode
    from caraml.codec import encode as encode
    from caraml.codec import register as register
    from caraml.errors import *  # noqa: F403
    from caraml.inmemory.pool import SharedPool as SharedPool
    from caraml.limits import Limits as Limits
    from caraml.zmq import *  # noqa: F403

# Imported on first use: symphony imports caraml.service_env, which must not load ZeroMQ and numpy.
_HOME_OF = {
    "Limits": "caraml.limits",
    "SharedPool": "caraml.inmemory.pool",
    "decode": "caraml.codec",
    "encode": "caraml.codec",
    "register": "caraml.codec",
}


def __dir__() -> list[str]:
    """List the names, also those that are imported on first use."""
    from caraml import errors, zmq

    of_errors = (name for name in vars(errors) if name.endswith("Error"))
    return sorted({*globals(), *_HOME_OF, *zmq.__all__, *of_errors})


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        home = "caraml.errors" if name.endswith("Error") else "caraml.zmq"
        # The import of a submodule such as service_env asks for its name here first.
        if not name[:1].isupper():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(home), name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
