"""Finds the cluster of an experiment, and distinguishes its objects from those of others."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from symphony import paths
from symphony.backends.kubernetes import inventory
from symphony.backends.kubernetes.api import kubeconfig
from symphony.backends.kubernetes.api.client import (
    Client,
    Forbidden,
    Refused,
    Unreachable,
    client_of,
    path_of,
    short_timeouts,
)
from symphony.backends.kubernetes.api.fields import Values, text
from symphony.backends.kubernetes.manifests import labels
from symphony.backends.observe import Recorded
from symphony.errors import SymphonyError, UserError

# The key of `connection` with the uid of the namespace that the experiment made.
NAMESPACE = "namespace"
# The engine marks encrypted values in its state with this key.
_ENCRYPTED = "4dabf18193072939515e22adb298388d"
_ENCRYPTED_REMEDY = (
    "The stack's kubernetes:kubeconfig is encrypted in its state, so symphony uses your default kubeconfig:"
    " add that context to it, or write the text to a file, set kubernetes:kubeconfig to its path, and run"
    " `symphony up`"
)


def client_for(recorded: Recorded) -> Client:
    """Return the client for the cluster that the state records.

    Raises:
        UserError: The kubeconfig no longer has that context, or the context now means another cluster.
    """
    config, context = recorded.connection.get("kubeconfig", ""), recorded.connection.get("context", "")
    is_encrypted = _ENCRYPTED in config
    try:
        client = client_of("" if is_encrypted else config, context)
    except UserError as error:
        fallback = _current_context_remedy(recorded) or _with_forget_remedy(error.remedy, recorded)
        remedy = _ENCRYPTED_REMEDY if is_encrypted else fallback
        raise UserError(error.what, where=error.where, remedy=remedy) from error
    if not _is_same_cluster(client, recorded):
        stack = paths.stack_of(recorded.owner)
        remedy = _ENCRYPTED_REMEDY if is_encrypted else "Point the context at that cluster again"
        raise UserError(
            f"{f'context {context}' if context else 'the current context'}"
            f"{' of your default kubeconfig' if is_encrypted else ''} now means another cluster than the one"
            f" where {stack} runs",
            remedy=f"{remedy}; if that cluster no longer exists, {_forget_remedy(stack)}",
        )
    return client


def _current_context_remedy(recorded: Recorded) -> str:
    """Return the remedy if the current context reaches the experiment's cluster; else empty.

    Another kubeconfig of the same cluster may name its context differently.
    """
    if not recorded.connection.get("clusterIdentifier"):
        return ""
    with contextlib.suppress(SymphonyError), short_timeouts():
        client = client_of(recorded.connection.get("kubeconfig", ""), "")
        if _is_same_cluster(client, recorded):
            name = client.access.context
            stack = paths.stack_of(recorded.owner)
            return (
                f"Its current context {name} reaches that cluster: set `kubernetes:context: {name}` in"
                f" Pulumi.{stack}.yaml, then run `symphony up {stack}`"
            )
    return ""


def ensure_reachable(recorded: Recorded) -> Client:
    """Return the client, after the cluster has answered.

    Raises:
        SymphonyError: The cluster does not answer; the remedy also covers a deleted cluster.
    """
    try:
        client = client_for(recorded)
        client.get("/version")
    except Unreachable as error:
        raise Unreachable(error.what, remedy=_with_forget_remedy(error.remedy, recorded)) from error
    return client


def _is_same_cluster(client: Client, recorded: Recorded) -> bool:
    """Return whether a client's cluster is the experiment's.

    A user with other rights computes another identifier; then any recorded object decides.

    Raises:
        Forbidden: The user may read neither the identifier nor a recorded object.
    """
    expected = recorded.connection.get("clusterIdentifier")
    # A namespace that the experiment did not make, where all its users read the same uid.
    shared = "" if NAMESPACE in recorded.connection else recorded.physical_name
    if not expected or (identifier := inventory.identifier(client, shared)) == expected:
        return True
    uids = _recorded_uids(recorded)
    refusals: list[Forbidden] = []
    live = {path: text(body, "metadata", "uid") for path, body in _live_objects(client, uids, refusals)}
    if refusals and not live and identifier == client.access.server:
        raise refusals[0]
    return any(uid == uids[path] for path, uid in live.items())


def _recorded_uids(recorded: Recorded) -> dict[str, str]:
    """Return the path of every recorded object -> its uid, which is unique among all clusters."""
    namespace = recorded.physical_name
    uids = {**recorded.objects, **_pod_uids(recorded)}
    if uid := recorded.connection.get(NAMESPACE):
        uids[path_of("namespaces", name=namespace)] = uid
    return uids


def _pod_uids(recorded: Recorded) -> dict[str, str]:
    return {
        path_of("pods", recorded.physical_name, str(process["pod_name"])): str(process["uid"])
        for process in recorded.processes.values()
    }


def _live_objects(
    client: Client, object_paths: Collection[str], refusals: list[Forbidden] | None = None
) -> Iterator[tuple[str, Values]]:
    """Yield (path, object) for the objects that exist; pods and Services, often many, are listed.

    Refusals to read an object are added to `refusals`.
    """
    for collection in {path.rpartition("/")[0] for path in object_paths}:
        wanted = [path for path in object_paths if path.rpartition("/")[0] == collection]
        try:
            if collection.endswith(("/pods", "/services")):
                bodies = client.items(collection)
                live = {f"{collection}/{text(body, 'metadata', 'name')}": body for body in bodies}
            else:
                live = {path: body for path in wanted if (body := client.find(path)) is not None}
        except Forbidden as refusal:
            if refusals is not None:
                refusals.append(refusal)
            continue
        yield from ((path, live[path]) for path in wanted if path in live)


def _with_forget_remedy(remedy: str, recorded: Recorded) -> str:
    """Return a remedy that also covers a cluster that no longer exists."""
    sentence = f"{remedy.rstrip('.')}. " if remedy else ""
    return f"{sentence}If that cluster no longer exists, {_forget_remedy(paths.stack_of(recorded.owner))}"


def ensure_same_location(recorded: Recorded, name: str, connection: Mapping[str, str] | None) -> Recorded:
    """Return the record; raise UserError if the next command would ask another cluster.

    connection: for an `up`, the connection in the settings; if it reaches the recorded cluster in another
    way, the record is returned with it. None for other commands, which use the recorded connection.
    """
    if connection is not None and _has_other_connection(recorded, connection):
        return replace(recorded, connection={**recorded.connection, **connection})
    try:
        if connection is None:
            with short_timeouts():
                namespace = path_of("namespaces", name=recorded.physical_name)
                uid = recorded.connection.get(NAMESPACE)
                uids = {namespace: uid} if uid else _pod_uids(recorded)
                _refuse_foreign(client_for(recorded), recorded, uids, name)
        else:
            client_for(recorded)
            _refuse_switched(recorded, name, connection)
    except UserError:
        raise
    except SymphonyError as error:
        # Reading commands report themselves that the cluster does not answer.
        if connection is not None or (isinstance(error, Refused) and error.status == 401):
            raise
    return recorded


def _has_other_connection(recorded: Recorded, connection: Mapping[str, str]) -> bool:
    """Return whether the settings name another connection to the same cluster."""
    keys = ("kubeconfig", "context")
    if all(connection.get(key, "") in ("", recorded.connection.get(key, "")) for key in keys):
        return False
    return _is_same_cluster(client_of(*(connection.get(key, "") for key in keys)), recorded)


def _refuse_switched(recorded: Recorded, name: str, connection: Mapping[str, str]) -> None:
    """Raise UserError if an `up` would move the experiment to another cluster."""
    client = client_of(connection.get("kubeconfig", ""), connection.get("context", ""))
    if not _is_same_cluster(client, recorded):
        context, file = recorded.connection.get("context"), connection.get("kubeconfig", "")
        chosen = "its settings name context" if connection.get("context") else "your current context is"
        is_recorded = file in ("", recorded.connection.get("kubeconfig", ""))
        of_file = "" if is_recorded or kubeconfig.is_text(file) else f" of {file}"
        restore = "" if is_recorded else "restore `kubernetes:kubeconfig` and "
        raise UserError(
            f"{name} runs in the cluster of context {context}, but {chosen} {client.access.context}{of_file}",
            remedy=f"To keep it there, {restore}set `kubernetes:context: {context}` in"
            f" Pulumi.{paths.stack_of(recorded.owner)}.yaml; to move it, run `symphony delete {name}` first",
        )


def refuse_foreign_objects(client: Client, recorded: Recorded) -> None:
    """Raise UserError if another user replaced a Service or a file in a shared namespace."""
    # If the namespace is the experiment's, it is deleted as a whole.
    if NAMESPACE not in recorded.connection:
        _refuse_foreign(client, recorded, recorded.objects, paths.stack_of(recorded.owner))


def _refuse_foreign(client: Client, recorded: Recorded, uids: Mapping[str, str], name: str) -> None:
    """Raise UserError if the engine, which deletes by name, would delete an object of another owner.

    A killed `up` may have re-created an object, with another uid and this owner's annotation.
    """
    for path, body in _live_objects(client, uids):
        if text(body, "metadata", "uid") != uids[path] and not labels.belongs_to(body, recorded.owner):
            kind, object_name = path.split("/")[-2:]
            where = "" if kind == "namespaces" else f" in namespace {recorded.physical_name}"
            raise UserError(
                f"the {kind[:-1]} {object_name}{where} does not belong to {name}: it was deleted and created"
                " again, but not by this stack (its UID differs)",
                remedy=f"{_forget_remedy(name)} and does not touch that {kind[:-1]}",
            )


def _forget_remedy(stack: str) -> str:
    return (
        f'`eval "$(symphony env)"; pulumi stack rm {stack} --force --preserve-config` forgets the experiment'
    )
