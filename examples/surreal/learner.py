"""Learns from samples of the replay and publishes the parameters; `learner` of the stack.

A thread fetches the next batch during an update. A restarted learner resumes from its checkpoint.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from algorithms import Arrays, State, learning
from algorithms.environments import spaces
from shared.channels import Reports, ZmqTimeoutError, ask, client, publisher, puller, pusher
from shared.children import in_background
from shared.settings import Settings, chosen, parser

PUBLISH_AGAIN = 0.5
SAY_EVERY = 2.0


class Sampler:
    """Requests samples from the replay, and counts all steps that the replay received."""

    def __init__(self, settings: Settings, steps: int) -> None:
        self.settings, self.steps = settings, steps
        self.asking = client("sampler-frontend")
        self.inserted: dict[int, int] = {}
        # A learner resumed from a checkpoint does not count the steps already in the replay.
        self.fresh = steps == 0
        self.batches_due = 0.0

    def ask(self, count: int) -> dict[str, Any]:
        """Return one answer of one shard, which waits a moment for new steps if it gives no sample."""
        answer = ask(self.asking, {"count": count})
        shard, inserted = answer["shard"], answer["inserted"]
        before = self.inserted.get(shard, 0 if self.fresh else inserted)
        # A restarted shard counts from 0.
        new = inserted - before if inserted >= before else inserted
        self.inserted[shard] = inserted
        self.steps += new
        self.batches_due += new * self.settings.updates_per_step
        return answer

    def batches(self) -> Iterator[dict[str, Any]]:
        """Yield the batch of each update."""
        settings = self.settings
        while True:
            if settings.replay == "fifo":
                yield {"sample": self._fragments(), "steps": self.steps}
                continue
            while self.steps < settings.warmup or self.batches_due < settings.epochs:
                self.ask(0)
            answer = self.ask(settings.batch * settings.epochs)
            if answer["sample"] is None:
                continue  # this shard may have begun to listen only now
            self.batches_due -= settings.epochs
            yield {"sample": answer["sample"], "shard": answer["shard"], "steps": self.steps}

    def _fragments(self) -> Arrays:
        """Return as many fragments as there are agents, from any of them."""
        fragments: list[Arrays] = []
        # Counted in environments: the fragment of one agent has several.
        wanted = self.settings.agents * self.settings.environments
        while wanted:
            sample = self.ask(wanted // self.settings.environments)["sample"]
            if sample is not None:
                fragments.append(sample)
                wanted -= sample["rewards"].shape[1]
        return {name: np.concatenate([each[name] for each in fragments], axis=1) for name in fragments[0]}


class Checkpoint:
    """The state of the learner in a file that is replaced atomically."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "checkpoint.npz"
        self.saved = time.monotonic()

    def save(self, state: State, version: int, steps: int) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        draft = self.file.with_suffix(".draft.npz")
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
        np.savez(draft, *leaves, version=version, steps=steps)
        draft.replace(self.file)
        self.saved = time.monotonic()

    def load(self, like: State) -> tuple[State, int, int] | None:
        """Return state, version and steps, or None without a checkpoint of this network."""
        if not self.file.exists():
            return None
        structure, leaves = jax.tree.structure(like), jax.tree.leaves(like)
        with np.load(self.file) as file:
            kept = [file[f"arr_{number}"] for number in range(len(file.files) - len(("version", "steps")))]
            if [leaf.shape for leaf in kept] != [np.shape(leaf) for leaf in leaves]:
                return None
            return jax.tree.unflatten(structure, kept), int(file["version"]), int(file["steps"])


def main() -> None:
    settings = chosen(parser().parse_args())
    reports, publishing = Reports("learner"), publisher("parameter-publish")
    algorithm = learning(settings, spaces(settings.environment))
    checkpoint = Checkpoint(Path(settings.folder))
    state, version, steps = algorithm.initial(), 0, 0
    if loaded := checkpoint.load(state):
        state, version, steps = loaded
        reports.say(f"goes on from update {version:,}, {steps:,} steps")
    queue = puller("prefetch-queue", hwm=1)
    in_background(prefetch, settings, steps)

    def publish() -> None:
        network = algorithm.policy(state)
        publishing.pub("parameters", {"version": version, "steps": steps, "network": network})

    updates, stale = 0, []
    while True:
        publish()
        try:
            batch = queue.pull(timeout=PUBLISH_AGAIN)
        except ZmqTimeoutError:
            continue  # the parameter server may have begun to listen only now
        sample, steps = batch["sample"], batch["steps"]
        stale.append(version - float(sample.pop("versions").mean()))
        indices = sample.pop("indices", None)
        state, scalars, priorities = algorithm.learn(state, sample)
        version, updates = version + 1, updates + 1
        if settings.replay == "prioritized":
            message = {"indices": indices, "priorities": priorities}
            publishing.pub(f"priorities/{batch['shard']}/", message)
        if time.monotonic() - checkpoint.saved > settings.checkpoint_every:
            checkpoint.save(state, version, steps)
        if passed := reports.every(SAY_EVERY):
            scalars |= {"updates_per_second": updates / passed, "staleness": float(np.mean(stale))}
            reports.plot(steps, **scalars)
            shown = "  ".join(f"{name} {value:.3g}" for name, value in scalars.items())
            reports.say(f"update {version:6,}  {steps:9,} steps  {shown}")
            updates, stale = 0, []


def prefetch(settings: Settings, steps: int) -> None:
    """Fetch batches and push them into the queue `prefetch-queue`, forever."""
    queue = pusher("prefetch-queue", hwm=1)
    for batch in Sampler(settings, steps).batches():
        queue.push(batch)


if __name__ == "__main__":
    main()
