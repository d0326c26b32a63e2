"""Hands out pieces of an integral and adds up the results; the process `reducer` of stacks/numint.py.

A piece without an answer in time is handed out again, so that a lost worker loses nothing.
"""

import argparse
import math
import sys
import time

from functions import FUNCTIONS

from caraml import ZmqServer, ZmqTimeoutError

PATIENCE = 10.0


class Pieces:
    """The pieces of an integral: open ones, those handed out and when, and the results of the others."""

    def __init__(self, count: int, steps: int) -> None:
        self.count, self.steps = count, steps
        self.open = list(range(count))[::-1]
        self.out: dict[int, float] = {}
        self.values: dict[int, float] = {}

    def hand_out(self) -> int | None:
        """Return the next piece to do; one that was handed out too long ago counts as open again."""
        late = [number for number, since in self.out.items() if time.monotonic() - since > PATIENCE]
        number = self.open.pop() if self.open else min(late, default=None)
        if number is not None:
            self.out[number] = time.monotonic()
        return number

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the points of a piece: the first, and one after the last."""
        return number * self.steps // self.count, (number + 1) * self.steps // self.count

    def done(self, number: int, value: float) -> bool:
        """Record a result; return False if the piece already has one, from a worker presumed dead."""
        self.out.pop(number, None)
        return self.values.setdefault(number, value) is value


def main() -> int:
    arguments = read_arguments()
    _, expected = FUNCTIONS[arguments.function]
    pieces = Pieces(arguments.pieces, arguments.steps)
    server = ZmqServer(service="pieces", serializer="msgpack", deserializer="msgpack", timeout=1.0)
    print(f"integrating {arguments.function}: {arguments.steps:,} points in {arguments.pieces} pieces")

    began, printed, workers = time.monotonic(), 0, set[str]()
    while len(pieces.values) < pieces.count:
        answer(server, pieces, arguments.function, workers)
        percent = 100 * len(pieces.values) // pieces.count
        if percent >= printed + 10:
            printed = percent - percent % 10
            print(f"{printed:3}%   {len(pieces.values)}/{pieces.count} pieces from {len(workers)} workers")

    value = math.fsum(pieces.values.values())
    seconds, error = time.monotonic() - began, abs(value - expected)
    right = error < 1e-9
    verdict = "right" if right else "WRONG"
    print(f"{arguments.function} = {value:.12f}, off by {error:.1e}, in {seconds:.1f} s: {verdict}")
    return 0 if right else 1


def answer(server: ZmqServer, pieces: Pieces, function: str, workers: set[str]) -> None:
    """Answer one message of a worker, which may contain a result, with the next piece."""
    try:
        message = server.recv()
    except ZmqTimeoutError:
        return
    workers.add(message["worker"])
    if "value" in message:
        pieces.done(message["piece"], message["value"])
    number = pieces.hand_out() if len(pieces.values) < pieces.count else None
    if number is not None:
        first, last = pieces.bounds(number)
        work = {"piece": number, "first": first, "last": last, "steps": pieces.steps, "function": function}
    else:
        work = {"wait": 0.2}
    server.send(work)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--function", choices=sorted(FUNCTIONS), default="pi")
    parser.add_argument("--steps", type=int, default=200_000_000)
    parser.add_argument("--pieces", type=int, default=100)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
