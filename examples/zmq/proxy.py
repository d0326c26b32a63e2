"""Requests through a proxy: `proxy.py proxy`, `proxy.py server` and `proxy.py client`."""

import sys
import time

from where import PATIENCE, side, where

from caraml import ZmqClient, ZmqProxyThread, ZmqServer

SECONDS = 5.0


def proxy() -> None:
    forwarding = ZmqProxyThread(**side("in", "front"), **side("out", "back"))
    forwarding.start()
    forwarding.wait_bound(timeout=10)
    time.sleep(SECONDS)
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
