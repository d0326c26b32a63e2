"""The ZeroMQ patterns, one module each; `from caraml.zmq import ZmqClient, ...` as in caraml 0.10.

A name's module is loaded when the name is first used: a program pays for what it uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from caraml.errors import ZmqTimeoutError as ZmqTimeoutError
    from caraml.transport.socket import ZmqSocket as ZmqSocket
    from caraml.zmq.acknowledged.receiver import ZmqReceiver as ZmqReceiver
    from caraml.zmq.acknowledged.sender import ZmqSender as ZmqSender
    from caraml.zmq.data_fetcher import DataFetcher as DataFetcher
    from caraml.zmq.proxy import ZmqProxy as ZmqProxy
    from caraml.zmq.proxy import ZmqProxyProcess as ZmqProxyProcess
    from caraml.zmq.proxy import ZmqProxyThread as ZmqProxyThread
    from caraml.zmq.pubsub.publisher import ZmqPub as ZmqPub
    from caraml.zmq.pubsub.subscriber import ZmqSub as ZmqSub
    from caraml.zmq.push_pull import ZmqPuller as ZmqPull  # noqa: F401  # pyright: ignore[reportUnusedImport]
    from caraml.zmq.push_pull import ZmqPuller as ZmqPuller
    from caraml.zmq.push_pull import ZmqPusher as ZmqPush  # noqa: F401  # pyright: ignore[reportUnusedImport]
    from caraml.zmq.push_pull import ZmqPusher as ZmqPusher
    from caraml.zmq.request_reply import ZmqClient as ZmqClient
    from caraml.zmq.request_reply import ZmqServer as ZmqServer

HOMES = {
    "DataFetcher": ("caraml.zmq.data_fetcher", "DataFetcher"),
    "ZmqClient": ("caraml.zmq.request_reply", "ZmqClient"),
    "ZmqProxy": ("caraml.zmq.proxy", "ZmqProxy"),
    "ZmqProxyProcess": ("caraml.zmq.proxy", "ZmqProxyProcess"),
    "ZmqProxyThread": ("caraml.zmq.proxy", "ZmqProxyThread"),
    "ZmqPub": ("caraml.zmq.pubsub.publisher", "ZmqPub"),
    "ZmqPull": ("caraml.zmq.push_pull", "ZmqPuller"),
    "ZmqPuller": ("caraml.zmq.push_pull", "ZmqPuller"),
    "ZmqPush": ("caraml.zmq.push_pull", "ZmqPusher"),
    "ZmqPusher": ("caraml.zmq.push_pull", "ZmqPusher"),
    "ZmqReceiver": ("caraml.zmq.acknowledged.receiver", "ZmqReceiver"),
    "ZmqSender": ("caraml.zmq.acknowledged.sender", "ZmqSender"),
    "ZmqServer": ("caraml.zmq.request_reply", "ZmqServer"),
    "ZmqSocket": ("caraml.transport.socket", "ZmqSocket"),
    "ZmqSub": ("caraml.zmq.pubsub.subscriber", "ZmqSub"),
    "ZmqTimeoutError": ("caraml.errors", "ZmqTimeoutError"),
}

__all__ = list(HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
