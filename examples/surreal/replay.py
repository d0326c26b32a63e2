"""Stores fragments of agents in shards, and samples them for the learner; `replay` of the stack.

Two proxies distribute the fragments and the requests over the shards, which are separate processes.
"""

import threading
from typing import Any

from algorithms.buffers import buffer
from shared.channels import Reports, forward, puller, server, subscriber
from shared.children import in_background, run_all
from shared.settings import Settings, chosen, parser

# Seconds to wait for data. A count of 0 waits too: the learner polls with it until enough steps arrived.
A_WHILE = 0.02


def keep(settings: Settings, shard: int) -> None:
    """Run one shard forever: a thread stores fragments, this one answers the learner."""
    kept = buffer(settings.replay, settings.capacity // settings.shards, settings.seed + shard)
    changed = threading.Condition()
    reports = Reports(f"replay-{shard}")

    def collect() -> None:
        collecting = puller("collector-backend", bind=False)
        while True:
            fragment = collecting.pull()
            with changed:
                kept.add(fragment)
                changed.notify_all()

    def prioritize() -> None:
        # The learner reaches one particular shard by the topic; the proxy passes requests to any shard.
        publishing = subscriber("parameter-publish", f"priorities/{shard}/")
        while True:
            message = publishing.recv()
            with changed:
                kept.prioritize(message["indices"], message["priorities"])

    def answer(request: dict[str, int]) -> dict[str, Any]:
        with changed:
            sample = kept.sample(request["count"]) if request["count"] else None
            if sample is None and changed.wait(A_WHILE) and request["count"]:
                sample = kept.sample(request["count"])
            return {"shard": shard, "inserted": kept.inserted, "sample": sample}

    in_background(collect)
    if settings.replay == "prioritized":
        in_background(prioritize)
    reports.say(f"keeps {kept.capacity:,} steps, {settings.replay}")
    server("sampler-backend").start_loop(answer, blocking=True)


def main() -> None:
    settings = chosen(parser().parse_args())
    forward("pull-push", "collector-frontend", "collector-backend")
    forward("router-dealer", "sampler-frontend", "sampler-backend")
    run_all(keep, [(settings, shard) for shard in range(settings.shards)])


if __name__ == "__main__":
    main()
