"""Clusters: what a stack that is one would change, how it is resumed, and who still uses it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from symphony import paths
from symphony.backends import price_table
from symphony.engine import errors, workspace
from symphony.engine.run.events import Event, Finished, Started, Step
from symphony.engine.run.run import Run
from symphony.engine.state import file_store, locks
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.stack_target import StackTarget
from symphony.placement.pool import Pool
from symphony.placement.prices import Prices

_POOL = "gcp:container/nodePool:NodePool"
_KINDS = {
    "create": "create",
    "update": "update",
    "replace": "replace",
    "delete": "delete",
    "same": "keep",
    "read": "keep",
}
# How Google calls what it has, by which the engine finds what an interrupted run began.
_IDS = {
    "gcp:container/cluster:Cluster": "projects/{project}/locations/{location}/clusters/{name}",
    _POOL: "projects/{project}/locations/{location}/clusters/{cluster}/nodePools/{name}",
    "gcp:artifactregistry/repository:Repository": (
        "projects/{project}/locations/{location}/repositories/{repositoryId}"
    ),
    "gcp:serviceaccount/account:Account": (
        "projects/{project}/serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com"
    ),
    "gcp:compute/network:Network": "projects/{project}/global/networks/{name}",
    "gcp:compute/subnetwork:Subnetwork": "projects/{project}/regions/{region}/subnetworks/{name}",
}


@dataclass(frozen=True)
class WrittenCluster:
    """A cluster as plain values: its name, location and project, and the pools."""

    name: str
    location: str
    project: str
    pools: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class ResourceChange:
    """What an `up` does to one resource of a cluster: create, update, replace, delete or keep, and why."""

    name: str
    type: str
    kind: str
    why: str = ""

    @property
    def is_pool(self) -> bool:
        return self.type == _POOL


@dataclass(frozen=True)
class ClusterPlanned:
    """A cluster as its stack declares it, and what that changes."""

    stack: str
    project: str
    cluster: WrittenCluster
    changes: tuple[ResourceChange, ...]
    prices: Prices

    @property
    def pools(self) -> tuple[Pool, ...]:
        return tuple(map(Pool.from_json, self.cluster.pools))

    @property
    def changes_nothing(self) -> bool:
        return all(change.kind == "keep" for change in self.changes)

    def of_pool(self, name: str) -> ResourceChange | None:
        """What happens to a pool."""
        full = f"{self.cluster.name}-{name}"
        return next((each for each in self.changes if each.is_pool and each.name == full), None)

    def to_json(self) -> dict[str, Any]:
        cluster = asdict(self.cluster)
        changes = [asdict(change) for change in self.changes]
        hourly = {pool.name: self.prices.hourly(pool) for pool in self.pools}
        about = {"stack": self.stack, "project": self.project, "cluster": cluster, "changes": changes}
        return {**about, "hourly": hourly, "priced": self.prices.of}


@dataclass(frozen=True)
class ClusterEnded:
    """A cluster is there, after so many seconds."""

    stack: str
    cluster: WrittenCluster
    seconds: float


@dataclass
class Changes:
    """Gathers what the engine would do, or does, to each resource of a cluster."""

    steps: dict[str, Step] = field(default_factory=dict[str, Step])

    def take(self, event: Event) -> None:
        """Note what an event tells of a resource."""
        if isinstance(event, (Started, Finished)) and event.step.op in _KINDS and name_of(event.step):
            self.steps[event.step.urn] = event.step

    def planned(self, target: StackTarget, cluster: WrittenCluster) -> ClusterPlanned:
        changes = tuple(
            ResourceChange(each.name, each.type, _KINDS[each.op], _why(each)) for each in self.steps.values()
        )
        place = target.workspace
        prices = price_table.read(target.config.get(price_table.KEY), place.folder)
        return ClusterPlanned(target.name.stack, place.project, cluster, changes, prices)


def _why(step: Step) -> str:
    if step.op == "replace" and not step.changed:
        return "what it is part of is replaced"
    return ", ".join(step.changed) if step.op in ("update", "replace") else ""


def name_of(step: Step) -> str:
    """What a resource of a cluster is called; empty for any other."""
    return step.name if f"{stacks.CLUSTER}::" in step.parent and step.type.startswith("gcp:") else ""


def resume(target: StackTarget) -> None:
    """Take what an interrupted run began to make into the state, where it came to be.

    The engine forgets it, and Google would refuse to make it again. SymphonyError: Google does not answer.
    """
    name = target.name
    state = stacks.read(name).state
    if state is None or not any(each.type in _IDS for each in state.begun):
        return
    locks.recover(name.project, name.stack)
    exported = json.loads(_pulumi(target, ["stack", "export"]))
    deployment = exported["deployment"]
    begun = [each for each in deployment["pending_operations"] if each["resource"]["type"] in _IDS]
    deployment["pending_operations"] = []
    for each in begun:
        resource = each["resource"]
        resource["id"] = _IDS[resource["type"]].format_map(resource["inputs"])
        deployment["resources"].append({**resource, "outputs": resource["inputs"]})
    with tempfile.NamedTemporaryFile("w", dir=paths.private_folder(paths.home()), suffix=".json") as file:
        json.dump(exported, file)
        file.flush()
        _pulumi(target, ["stack", "import", f"--file={file.name}"])
    # What did not come to be goes out of the state again, of the rest it is told what Google says.
    with Run("refresh", target.workspace, name.stack, fetch_plugins=True) as run:
        for _ in run:
            pass
    errors.check(run.outcome)


def _pulumi(target: StackTarget, words: list[str]) -> str:
    done = workspace.pulumi(target.workspace, [*words, f"--stack={target.name.stack}"])
    if done.returncode:
        raise errors.from_text(done.stderr, stack=target.name.stack, project=target.name.project)
    return done.stdout


def refuse_used(stack: stacks.Stack) -> None:
    """UserError: experiments run on the cluster, in whichever project; the message names them."""
    users = [each.name for each in _users(stack.name)]
    if users:
        named = ", ".join(stacks.labels(users).values())
        runs, first = ("run", "Delete them first: `symphony ls`")
        if len(users) == 1:
            runs, first = ("runs", f"First `symphony delete {users[0].stack}`")
        raise UserError(f"{named} {runs} on the cluster {stack.shown}", remedy=first)


def _users(name: file_store.StackName) -> Iterator[stacks.Stack]:
    """The stacks that refer to this one and have objects there: what a failed `up` leaves may have none."""
    for each in stacks.every():
        there = (*each.state.resources, *each.state.begun) if each.state else ()
        if str(name) in stacks.clusters_of(each) and any(
            resource.type.startswith("kubernetes:") for resource in there
        ):
            yield each


def with_kubeconfig(config: Mapping[str, Any], place: workspace.Workspace) -> Mapping[str, Any]:
    """Settings of an experiment, with the kubeconfig of the cluster that they name.

    UserError: there is no such stack, or it has no cluster yet.
    """
    given = config.get("symphony:cluster")
    if not isinstance(given, str) or config.get("kubernetes:kubeconfig"):
        return config
    name = workspace.stack_name(given, place)
    words = ["stack", "output", "kubeconfig", "--show-secrets", f"--stack={name}"]
    done = workspace.pulumi(place, words)
    if done.returncode:
        raise UserError(
            f"the cluster {given} is not there",
            where="symphony:cluster",
            remedy=f"Bring it up first: `symphony up {name.stack}`",
        )
    return {**config, "kubernetes:kubeconfig": done.stdout.strip()}
