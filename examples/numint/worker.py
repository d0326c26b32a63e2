"""Asks the reducer for pieces of the integral and does them; the processes `worker-*` of stacks/numint.py.

It starts when the reducer listens, and is stopped when the reducer has completed: see stacks/numint.py.
"""

import time
import uuid

from functions import integral

from caraml import ZmqClient, ZmqTimeoutError

DEADLINE = 5.0


def main() -> None:
    client = ZmqClient(service="pieces", serializer="msgpack", deserializer="msgpack", timeout=DEADLINE)
    # Workers of one pod have the same host name, and each has pid 1 in its container.
    name = uuid.uuid4().hex
    message: dict[str, object] = {"worker": name}
    while True:
        work = ask(client, message)
        message = {"worker": name}
        if "wait" in work:
            time.sleep(work["wait"])
            continue
        value = integral(work["function"], work["first"], work["last"], work["steps"])
        message |= {"piece": work["piece"], "value": value}
        print(f"piece {work['piece']}: {value:.12f}")


def ask(client: ZmqClient, message: dict[str, object]) -> dict:
    """Send a message to the reducer until it answers; the reducer may restart meanwhile."""
    while True:
        try:
            return client.request(message)
        except ZmqTimeoutError:
            print("no answer from the reducer, asking again")


if __name__ == "__main__":
    main()
