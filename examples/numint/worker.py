"""Asks the reducer for pieces of the integral and does them; the processes `worker-*` of stacks/numint.py."""

import json
import os
import time

import zmq
from functions import integral

DEADLINE = 5.0


def main() -> None:
    context = zmq.Context()
    name = f"{os.uname().nodename}:{os.getpid()}"
    message: dict[str, object] = {"worker": name}
    done = 0
    while True:
        work = ask(context, message)
        if work.get("done"):
            print(f"no more work: did {done} pieces")
            return
        message = {"worker": name}
        if "wait" in work:
            time.sleep(work["wait"])
            continue
        value = integral(work["function"], work["first"], work["last"], work["steps"])
        message |= {"piece": work["piece"], "value": value}
        done += 1
        print(f"piece {work['piece']}: {value:.12f}")


def ask(context: zmq.Context, message: dict[str, object]) -> dict:
    """Send a message to the reducer until it answers; it may not be up yet, or be restarted."""
    while True:
        with context.socket(zmq.REQ) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(f"tcp://{os.environ['SYMPH_PIECES_ADDR']}")
            socket.send(json.dumps(message).encode())
            if socket.poll(DEADLINE * 1000):
                return json.loads(socket.recv())
        print("no answer from the reducer, asking again")


if __name__ == "__main__":
    main()
