"""Bulk data through shared memory: `python data_fetcher.py server` and `python data_fetcher.py fetcher`."""

import os
import sys

import numpy as np
from where import PATIENCE, where

from caraml import DataFetcher, ZmqClient, ZmqServer

COUNT = 8


def server() -> None:
    def answer(request: object) -> object:
        if request == "end":
            answering.stop()
            return None
        return {"batch": np.full((256, 1024), request), "pid": os.getpid()}

    with ZmqServer(**where("batches"), serializer="msgpack", deserializer="msgpack") as answering:
        answering.start_loop(answer, blocking=True)
    print("served")


def fetcher() -> None:
    sums = []

    def handle(request: int, shared: object) -> None:
        sums.append(int(shared.data["batch"].sum()))
        shared.delete()

    place = where("batches")
    remote = {"remote_service": place["service"]} if "service" in place else {"remote_host": place["host"]}
    fetching = DataFetcher(
        handle, remote_port=place.get("port"), requests=range(COUNT), timeout=PATIENCE, **remote
    )
    fetching.start()
    fetching.join()
    print(f"fetched {len(sums)}, {sum(sums)} in all")
    with ZmqClient(**place, serializer="msgpack", deserializer="msgpack", timeout=PATIENCE) as asking:
        asking.request("end")


if __name__ == "__main__":
    {"server": server, "fetcher": fetcher}[sys.argv[1]]()
