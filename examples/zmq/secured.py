"""Encrypted, for holders of a key only: `python -m caraml.keys KEYS` creates a folder of keys, once; then
`python secured.py server KEYS` and `python secured.py client KEYS`.
"""

import sys

from where import where

from caraml import CaramlError, ZmqClient, ZmqServer


def server(keys: str) -> None:
    def answer(request: str) -> str:
        if request == "end":
            answering.stop()
        return request.upper()

    with ZmqServer(**where("vault"), keys=keys, serializer="str", deserializer="str") as answering:
        answering.start_loop(answer, blocking=True)
        print(f"served; a client was refused: {bool(answering.denied)}")


def client(keys: str) -> None:
    with ZmqClient(**where("vault"), keys=keys, serializer="str", deserializer="str", timeout=30) as asking:
        print("with a key:", asking.request("hello"))
        try:
            with ZmqClient(**where("vault"), serializer="str", deserializer="str", timeout=5) as stranger:
                stranger.request("hello")
        except CaramlError as error:
            print("without a key:", type(error).__name__)
        asking.request("end")


if __name__ == "__main__":
    {"server": server, "client": client}[sys.argv[1]](sys.argv[2])
