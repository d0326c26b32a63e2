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
| request, reply | ZmqClient, ZmqServer | this answer or an error, within a deadline |
| acknowledged | ZmqSender, ZmqReceiver | nothing lost while the sender lives |
| topics | ZmqPub, ZmqSub | to subscribers that keep up; drop, latest or block |
| forwarding | ZmqProxy, ZmqProxyThread, ZmqProxyProcess | - |
| shared memory | SharedPool, DataFetcher, caraml.inmemory | one host |

Each class's module says its promise in full. The library logs to the logger `caraml`; unless a
program sets up logging, Python shows its warnings on standard error.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from caraml.codec import decode as decode
    from caraml.codec import encode as encode
    from caraml.codec import register as register
    from caraml.errors import AddressError as AddressError
    from caraml.errors import AddressInUseError as AddressInUseError
    from caraml.errors import AuthenticationError as AuthenticationError
    from caraml.errors import CaramlError as CaramlError
    from caraml.errors import ClosedError as ClosedError
    from caraml.errors import ConcurrentUseError as ConcurrentUseError
    from caraml.errors import EncodeError as EncodeError
    from caraml.errors import ForkedError as ForkedError
    from caraml.errors import KeyFileError as KeyFileError
    from caraml.errors import MalformedMessageError as MalformedMessageError
    from caraml.errors import MessageTooLargeError as MessageTooLargeError
    from caraml.errors import PeerLostError as PeerLostError
    from caraml.errors import PickleRefusedError as PickleRefusedError
    from caraml.errors import RemoteError as RemoteError
    from caraml.errors import SharedMemoryError as SharedMemoryError
    from caraml.errors import SocketError as SocketError
    from caraml.errors import UnsignedPickleError as UnsignedPickleError
    from caraml.errors import ZmqTimeoutError as ZmqTimeoutError
    from caraml.inmemory.pool import SharedPool as SharedPool
    from caraml.limits import Limits as Limits
    from caraml.service_env import ServiceVariableError as ServiceVariableError
    from caraml.zmq import DataFetcher as DataFetcher
    from caraml.zmq import ZmqClient as ZmqClient
    from caraml.zmq import ZmqProxy as ZmqProxy
    from caraml.zmq import ZmqProxyProcess as ZmqProxyProcess
    from caraml.zmq import ZmqProxyThread as ZmqProxyThread
    from caraml.zmq import ZmqPub as ZmqPub
    from caraml.zmq import ZmqPull as ZmqPull
    from caraml.zmq import ZmqPuller as ZmqPuller
    from caraml.zmq import ZmqPush as ZmqPush
    from caraml.zmq import ZmqPusher as ZmqPusher
    from caraml.zmq import ZmqReceiver as ZmqReceiver
    from caraml.zmq import ZmqSender as ZmqSender
    from caraml.zmq import ZmqServer as ZmqServer
    from caraml.zmq import ZmqSocket as ZmqSocket
    from caraml.zmq import ZmqSub as ZmqSub

# Loaded when first used: symphony imports caraml.service_env, and must not load ZeroMQ and numpy with it.
_HOMES = {
    "caraml.codec": ("decode", "encode", "register"),
    "caraml.service_env": ("ServiceVariableError",),
    "caraml.inmemory.pool": ("SharedPool",),
    "caraml.limits": ("Limits",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __dir__() -> list[str]:
    """List the names, also those that are loaded on first use."""
    from caraml import errors, zmq

    of_errors = (name for name in vars(errors) if name.endswith("Error"))
    return sorted({*globals(), *_HOME_OF, *zmq.__all__, *of_errors})


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        home = "caraml.errors" if name.endswith("Error") else "caraml.zmq"
        # A submodule such as service_env is imported by itself, without those.
        if not name[:1].isupper():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(home), name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
