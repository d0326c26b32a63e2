"""The sockets of the ZeroMQ patterns; `from caraml.zmq import ZmqClient, ...` as in caraml 0.10."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from caraml.errors import ZmqTimeoutError as ZmqTimeoutError
from caraml.transport.socket import ZmqSocket as ZmqSocket
from caraml.zmq.acknowledged.receiver import ZmqReceiver as ZmqReceiver
from caraml.zmq.acknowledged.sender import ZmqSender as ZmqSender
from caraml.zmq.pubsub.publisher import ZmqPub as ZmqPub
from caraml.zmq.pubsub.subscriber import ZmqSub as ZmqSub
from caraml.zmq.push_pull import ZmqPuller as ZmqPuller
from caraml.zmq.push_pull import ZmqPusher as ZmqPusher
from caraml.zmq.request_reply import ZmqClient as ZmqClient
from caraml.zmq.request_reply import ZmqServer as ZmqServer

if TYPE_CHECKING:
    from caraml.zmq.data_fetcher import DataFetcher as DataFetcher
    from caraml.zmq.proxy import ZmqProxy as ZmqProxy
    from caraml.zmq.proxy import ZmqProxyProcess as ZmqProxyProcess
    from caraml.zmq.proxy import ZmqProxyThread as ZmqProxyThread

ZmqPull, ZmqPush = ZmqPuller, ZmqPusher
# Imported on first use: multiprocessing takes as long to import as all the others.
_LAZY = {
    "DataFetcher": "caraml.zmq.data_fetcher",
    "ZmqProxy": "caraml.zmq.proxy",
    "ZmqProxyProcess": "caraml.zmq.proxy",
    "ZmqProxyThread": "caraml.zmq.proxy",
}
__all__ = [*(name for name in globals() if name.startswith("Zmq")), *_LAZY]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    attribute = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return attribute
