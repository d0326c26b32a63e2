"""Stacks that create a GKE cluster: resumes interrupted runs, and finds the experiments on the cluster."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from symphony import paths
from symphony.engine import errors, workspace
from symphony.engine.run.events import Step
from symphony.engine.run.run import Run
from symphony.engine.state import locks
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.selected_stack import SelectedStack

# The ids by which the engine finds Google's resources that an interrupted run began to create.
_IDS = {
    "gcp:container/cluster:Cluster": "projects/{project}/locations/{location}/clusters/{name}",
    "gcp:container/nodePool:NodePool": (
        "projects/{project}/locations/{location}/clusters/{cluster}/nodePools/{name}"
    ),
    "gcp:artifactregistry/repository:Repository": (
        "projects/{project}/locations/{location}/repositories/{repositoryId}"
    ),
    "gcp:serviceaccount/account:Account": (
        "projects/{project}/serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com"
    ),
    "gcp:compute/network:Network": "projects/{project}/global/networks/{name}",
    "gcp:compute/subnetwork:Subnetwork": "projects/{project}/regions/{region}/subnetworks/{name}",
}
# Pulumi's words for a stack that does not exist, or has no cluster.
_NOT_UP = ("no stack named", "does not have output property")


class ClusterNotUp(UserError):
    """The stack that declares the cluster of an experiment is not up."""


def name_of(step: Step) -> str:
    """Return the type and name of a resource of a cluster, `NodePool rl-cpu`; empty for other resources."""
    is_of_cluster = f"{stacks.CLUSTER}::" in step.parent and step.type.startswith("gcp:")
    return f"{step.type.rpartition(':')[2]} {step.name}" if is_of_cluster else ""


def resume(selected: SelectedStack) -> None:
    """Add to the state the resources that an interrupted run began to create, if Google has them.

    The engine would forget them, and Google would refuse to create them again.

    Raises:
        SymphonyError: Google does not answer.
    """
    name = selected.name
    state = stacks.read(name).state
    if state is None or not any(resource.type in _IDS for resource in state.begun):
        return
    locks.recover(name.project, name.stack)
    exported = json.loads(_pulumi(selected, "stack", "export"))
    deployment = exported["deployment"]
    pending, deployment["pending_operations"] = deployment["pending_operations"], []
    for resource in (operation["resource"] for operation in pending if operation["type"] == "creating"):
        if resource["type"] in _IDS:
            resource["id"] = _IDS[resource["type"]].format_map(resource["inputs"])
            deployment["resources"].append({**resource, "outputs": resource["inputs"]})
    with tempfile.NamedTemporaryFile("w", dir=paths.private_folder(paths.home()), suffix=".json") as file:
        json.dump(exported, file)
        file.flush()
        _pulumi(selected, "stack", "import", f"--file={file.name}")
    # The refresh reads the resources, and removes those that Google does not have.
    with Run("refresh", selected.workspace, name.stack, fetch_plugins=True) as run:
        for _ in run:
            pass
    errors.check(run.outcome)


def _pulumi(selected: SelectedStack, *arguments: str) -> str:
    done = workspace.pulumi(selected.workspace, [*arguments, f"--stack={selected.name.stack}"])
    if done.returncode:
        raise errors.from_text(done.stderr, stack=selected.name.stack, project=selected.name.project)
    return done.stdout


def refuse_used(cluster: stacks.Stack) -> None:
    """Raise UserError if experiments of any project run on the cluster."""
    users = list(_users(cluster))
    if users:
        names = ", ".join(stacks.labels(user.name for user in users).values())
        remedy = "Delete them first; `symphony ls` lists them"
        if len(users) == 1:
            remedy = f"Run `symphony delete {users[0].display_name}` first"
        what = f"{names} run{'s' if len(users) == 1 else ''} on the cluster {cluster.display_name}"
        raise UserError(what, remedy=remedy)


def _users(cluster: stacks.Stack) -> Iterator[stacks.Stack]:
    """Yield the stacks that refer to the cluster and have objects there; a failed `up` may have left none."""
    for stack in stacks.every():
        resources = (*stack.resources, *(stack.state.begun if stack.state else ()))
        has_objects = any(resource.type.startswith("kubernetes:") for resource in resources)
        if has_objects and str(cluster.name) in stacks.clusters_of(stack):
            yield stack


def with_kubeconfig(config: Mapping[str, Any], project: workspace.Workspace) -> Mapping[str, Any]:
    """Return the settings of an experiment with the kubeconfig of its cluster.

    Raises:
        ClusterNotUp: There is no such stack, or it has no cluster.
        SymphonyError: The outputs of that stack cannot be read, such as without its passphrase.
    """
    cluster = config.get("symphony:cluster")
    if not isinstance(cluster, str) or config.get("kubernetes:kubeconfig"):
        return config
    name = workspace.stack_name(cluster, project)
    arguments = ["stack", "output", "kubeconfig", "--show-secrets", f"--stack={name}"]
    done = workspace.pulumi(project, arguments)
    if done.returncode and any(words in done.stderr for words in _NOT_UP):
        raise ClusterNotUp(
            f"the stack {cluster}, which declares the cluster, is not up",
            where="symphony:cluster",
            remedy=f"Run `symphony up {name.stack}` first",
        )
    if done.returncode:
        raise errors.from_text(done.stderr, stack=name.stack, project=name.project)
    return {**config, "kubernetes:kubeconfig": done.stdout.strip()}
