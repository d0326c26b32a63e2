"""Requests through a proxy: `proxy.py proxy`, `proxy.py server` and `proxy.py client`."""

import signal
import sys
import threading
import time

from where import PATIENCE, side, where

from caraml import ZmqClient, ZmqProxyThread, ZmqServer


def proxy() -> None:
    forwarding = ZmqProxyThread(**side("in", "front"), **side("out", "back"))
    forwarding.start()
    forwarding.wait_bound(timeout=10)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
    forwarding.stop()
    print("forwarded")


def server() -> None:
    with ZmqServer(**where("back"), bind=False, serializer="str", deserializer="str") as answering:
        answering.send(answering.recv(timeout=PATIENCE).upper())
        time.sleep(0.5)
    print("served")


def client() -> None:
    with ZmqClient(**where("front"), serializer="str", deserializer="str", timeout=PATIENCE) as asking:
        print(asking.request("through the proxy"))


if __name__ == "__main__":
    {"proxy": proxy, "server": server, "client": client}[sys.argv[1]]()
