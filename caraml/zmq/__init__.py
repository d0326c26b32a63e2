"""The sockets of the ZeroMQ patterns; `from caraml.zmq import ZmqClient, ...` as in caraml 0.10."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from caraml.errors import ZmqTimeoutError
from caraml.transport.socket import ZmqSocket
from caraml.zmq.acknowledged.receiver import ZmqReceiver
from caraml.zmq.acknowledged.sender import ZmqSender
from caraml.zmq.pubsub.publisher import ZmqPub
from caraml.zmq.pubsub.subscriber import ZmqSub
from caraml.zmq.push_pull import ZmqPuller, ZmqPusher
from caraml.zmq.request_reply import ZmqClient, ZmqServer

if TYPE_CHECKING:
    from caraml.zmq.data_fetcher import DataFetcher
    from caraml.zmq.proxy import ZmqProxy, ZmqProxyProcess, ZmqProxyThread

ZmqPull, ZmqPush = ZmqPuller, ZmqPusher
# Imported on first use: multiprocessing takes as long to import as all the others.
_LAZY = {
    "DataFetcher": "caraml.zmq.data_fetcher",
    "ZmqProxy": "caraml.zmq.proxy",
    "ZmqProxyProcess": "caraml.zmq.proxy",
    "ZmqProxyThread": "caraml.zmq.proxy",
}
__all__ = [
    "DataFetcher",
    "ZmqClient",
    "ZmqProxy",
    "ZmqProxyProcess",
    "ZmqProxyThread",
    "ZmqPub",
    "ZmqPull",
    "ZmqPuller",
    "ZmqPush",
    "ZmqPusher",
    "ZmqReceiver",
    "ZmqSender",
    "ZmqServer",
    "ZmqSocket",
    "ZmqSub",
    "ZmqTimeoutError",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    attribute = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return attribute
