"""Serves the newest parameters that the learner published; `ps` of the stack.

Agents ask this process instead of the learner, so that a hundred agents do not slow it down.
"""

import time
from typing import Any

import numpy as np
from shared.channels import Reports, ask, client, forward, server, subscriber
from shared.children import in_background


class Parameters:
    """The parameters of an agent or evaluator, fetched from the parameter server."""

    def __init__(self) -> None:
        self.asking = client("ps-frontend")
        self.version, self.steps = -1, 0
        self.network: list[np.ndarray] | None = None

    def fetch(self) -> bool:
        """Fetch the newest parameters; return False if they are the known ones."""
        answer = ask(self.asking, {"version": self.version})
        if answer is None:
            return False
        self.version, self.steps, self.network = answer["version"], answer["steps"], answer["network"]
        return True

    def wait_for_newer(self, patience: float) -> None:
        """Wait for newer parameters: for the first ones without a limit, for others up to `patience`."""
        until = time.monotonic() + patience
        while not self.fetch() and (self.network is None or time.monotonic() < until):
            time.sleep(0.01)


def answer(newest: dict[str, Any], request: dict[str, int]) -> dict[str, Any] | None:
    """Return the newest parameters unless the caller has them; None until the learner publishes the first."""
    return dict(newest) if newest and newest["version"] != request["version"] else None


def main() -> None:
    reports = Reports("ps")
    newest: dict[str, Any] = {}

    def follow() -> None:
        following = subscriber("parameter-publish", "parameters", latest=True)
        while True:
            newest.update(following.recv())

    in_background(follow)
    forward("router-dealer", "ps-frontend", "ps-backend")
    reports.say("serves parameters")
    server("ps-backend").start_loop(lambda request: answer(newest, request), blocking=True)


if __name__ == "__main__":
    main()
