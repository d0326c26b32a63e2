"""Stacks that make a GKE cluster: the plan, resuming an interrupted run, the experiments on it."""

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
# The names of resources at Google, by which the engine finds those that an interrupted run began.
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
    """The change of one resource of a cluster, and the reason.

    Attributes:
        kind: "create", "update", "replace", "delete" or "keep".
    """

    name: str
    type: str
    kind: str
    why: str = ""

    @property
    def is_pool(self) -> bool:
        return self.type == _POOL


@dataclass(frozen=True)
class ClusterPlanned:
    """A declared cluster and the changes of its resources."""

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
        """Return the change of a pool."""
        full = f"{self.cluster.name}-{name}"
        return next((change for change in self.changes if change.is_pool and change.name == full), None)

    def to_json(self) -> dict[str, Any]:
        cluster = asdict(self.cluster)
        changes = [asdict(change) for change in self.changes]
        hourly = {pool.name: self.prices.hourly(pool) for pool in self.pools}
        about = {"stack": self.stack, "project": self.project, "cluster": cluster, "changes": changes}
        return {**about, "hourly": hourly, "priced": self.prices.of}


@dataclass(frozen=True)
class ClusterEnded:
    """The end of an `up` of a cluster."""

    stack: str
    cluster: WrittenCluster
    seconds: float


@dataclass
class Changes:
    """Collects the changes of the resources of a cluster from the events of the engine."""

    steps: dict[str, Step] = field(default_factory=dict[str, Step])

    def take(self, event: Event) -> None:
        """Record the change that an event reports."""
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
        return "the cluster is replaced"
    return ", ".join(step.changed) if step.op in ("update", "replace") else ""


def name_of(step: Step) -> str:
    """Return the name of a resource of a cluster; empty for other resources."""
    return step.name if f"{stacks.CLUSTER}::" in step.parent and step.type.startswith("gcp:") else ""


def resume(target: StackTarget) -> None:
    """Import the resources into the state that an interrupted run began to make, if Google has them.

    The engine forgets them, and Google would refuse to make them again.

    Raises:
        SymphonyError: Google does not answer.
    """
    name = target.name
    state = stacks.read(name).state
    if state is None or not any(resource.type in _IDS for resource in state.begun):
        return
    locks.recover(name.project, name.stack)
    exported = json.loads(_pulumi(target, ["stack", "export"]))
    deployment = exported["deployment"]
    begun = [
        operation["resource"]
        for operation in deployment["pending_operations"]
        if operation["resource"]["type"] in _IDS
    ]
    deployment["pending_operations"] = []
    for resource in begun:
        resource["id"] = _IDS[resource["type"]].format_map(resource["inputs"])
        deployment["resources"].append({**resource, "outputs": resource["inputs"]})
    with tempfile.NamedTemporaryFile("w", dir=paths.private_folder(paths.home()), suffix=".json") as file:
        json.dump(exported, file)
        file.flush()
        _pulumi(target, ["stack", "import", f"--file={file.name}"])
    # A refresh removes what Google does not have, and reads the rest.
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
    """Raise UserError where experiments of any project run on the cluster."""
    users = [user.name for user in _users(stack.name)]
    if users:
        named = ", ".join(stacks.labels(users).values())
        runs, first = ("run", "Delete them first: `symphony ls`")
        if len(users) == 1:
            runs, first = ("runs", f"First `symphony delete {users[0].stack}`")
        raise UserError(f"{named} {runs} on the cluster {stack.shown}", remedy=first)


def _users(name: file_store.StackName) -> Iterator[stacks.Stack]:
    """Yield the stacks that refer to the cluster and have objects there; a failed `up` may have left none."""
    for stack in stacks.every():
        resources = (*stack.state.resources, *stack.state.begun) if stack.state else ()
        if str(name) in stacks.clusters_of(stack) and any(
            resource.type.startswith("kubernetes:") for resource in resources
        ):
            yield stack


def with_kubeconfig(config: Mapping[str, Any], place: workspace.Workspace) -> Mapping[str, Any]:
    """Return the settings of an experiment with the kubeconfig of the cluster that they name.

    Raises:
        UserError: There is no such stack, or it has no cluster yet.
    """
    cluster = config.get("symphony:cluster")
    if not isinstance(cluster, str) or config.get("kubernetes:kubeconfig"):
        return config
    name = workspace.stack_name(cluster, place)
    words = ["stack", "output", "kubeconfig", "--show-secrets", f"--stack={name}"]
    done = workspace.pulumi(place, words)
    if done.returncode:
        raise UserError(
            f"the cluster {cluster} is not up",
            where="symphony:cluster",
            remedy=f"Bring it up first: `symphony up {name.stack}`",
        )
    return {**config, "kubernetes:kubeconfig": done.stdout.strip()}
