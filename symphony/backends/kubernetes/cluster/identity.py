"""Finds the cluster of an experiment, and distinguishes its objects from those of others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from symphony import paths
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
from symphony.backends.kubernetes.cluster import inventory
from symphony.backends.kubernetes.manifests import labels
from symphony.backends.observe import Recorded
from symphony.errors import SymphonyError, UserError

# The key of `connection` with the uid of the namespace that the experiment made.
NAMESPACE = "namespace"
# The engine marks encrypted values in its state with this key.
_ENCRYPTED = "4dabf18193072939515e22adb298388d"
_OWN = (
    "The stack's kubernetes:kubeconfig is encrypted in its state, so symphony uses your default kubeconfig:"
    " add that context to it, or write the text to a file and set kubernetes:kubeconfig to its path"
)


def client_for(recorded: Recorded) -> Client:
    """Return the client for the cluster that the state records.

    Raises:
        UserError: The kubeconfig no longer has that context, or the context now means another cluster.
    """
    config, context = recorded.connection.get("kubeconfig", ""), recorded.connection.get("context", "")
    hidden = _ENCRYPTED in config
    try:
        client = client_of("" if hidden else config, context)
    except UserError as error:
        remedy = _OWN if hidden else _or_forget(error.remedy, recorded)
        raise UserError(error.what, where=error.where, remedy=remedy) from error
    if not _is_in(client, recorded):
        stack = paths.stack_of(recorded.owner)
        again = _OWN if hidden else "Point the context at that cluster again"
        raise UserError(
            f"{stack} runs in another cluster than context {context or '(current)'}"
            f"{' of your default kubeconfig' if hidden else ''} now names",
            remedy=f"{again}; if that cluster no longer exists, {_forget(stack)}",
        )
    return client


def ensure_reachable(recorded: Recorded) -> Client:
    """Return the client, after the cluster has answered.

    Raises:
        SymphonyError: The cluster does not answer; the remedy also covers a deleted cluster.
    """
    try:
        client = client_for(recorded)
        client.get("/version")
    except Unreachable as error:
        raise Unreachable(error.what, remedy=_or_forget(error.remedy, recorded)) from error
    return client


def _is_in(client: Client, recorded: Recorded) -> bool:
    """Return whether a client's cluster is the experiment's.

    A user with other rights computes another identifier; then any recorded object decides.

    Raises:
        Forbidden: The user may see none of these.
    """
    pinned = recorded.connection.get("clusterIdentifier")
    shared = "" if NAMESPACE in recorded.connection else recorded.physical_name
    if not pinned or (here := inventory.identifier(client, shared)) == pinned:
        return True
    uids = _recorded_uids(recorded)
    refusals: list[Forbidden] = []
    there = {place: text(body, "metadata", "uid") for place, body in _existing(client, uids, refusals)}
    if refusals and not there and here == client.access.server:
        raise refusals[0]
    return any(uid == uids[place] for place, uid in there.items())


def _recorded_uids(recorded: Recorded) -> dict[str, str]:
    """Return the path of every recorded object -> its uid, which is unique among all clusters."""
    namespace = recorded.physical_name
    uids = {**recorded.objects, **_pod_uids(recorded)}
    if uid := recorded.connection.get(NAMESPACE):
        uids[path_of("namespaces", name=namespace)] = uid
    return uids


def _pod_uids(recorded: Recorded) -> dict[str, str]:
    return {
        path_of("pods", recorded.physical_name, str(facts["pod_name"])): str(facts["uid"])
        for facts in recorded.processes.values()
    }


def _existing(
    client: Client, places: Collection[str], refusals: list[Forbidden] | None = None
) -> Iterator[tuple[str, Values]]:
    """Yield the objects at some paths that the user may see; pods and Services, often many, are listed.

    What the user may not see is added to `refusals`.
    """
    for folder in {place.rpartition("/")[0] for place in places}:
        own = [place for place in places if place.rpartition("/")[0] == folder]
        try:
            if folder.endswith(("/pods", "/services")):
                every = {f"{folder}/{text(body, 'metadata', 'name')}": body for body in client.items(folder)}
            else:
                every = {place: body for place in own if (body := client.find(place)) is not None}
        except Forbidden as refusal:
            if refusals is not None:
                refusals.append(refusal)
            continue
        yield from ((place, every[place]) for place in own if place in every)


def _or_forget(remedy: str, recorded: Recorded) -> str:
    """Return a remedy that also covers a cluster that no longer exists."""
    first = f"{remedy.rstrip('.')}. " if remedy else ""
    return f"{first}If that cluster no longer exists, {_forget(paths.stack_of(recorded.owner))}"


def ensure_same_location(recorded: Recorded, name: str, connection: Mapping[str, str] | None) -> Recorded:
    """Return the record; raise UserError if the next command would ask another cluster.

    connection: the connection of the next `up`; the record is returned with it if it reaches that cluster.
    """
    if connection is not None and _has_other_connection(recorded, connection):
        return replace(recorded, connection={**recorded.connection, **connection})
    try:
        if connection is None:
            with short_timeouts():
                uid = recorded.connection.get(NAMESPACE)
                own = (
                    {path_of("namespaces", name=recorded.physical_name): uid} if uid else _pod_uids(recorded)
                )
                _refuse_foreign(client_for(recorded), recorded, own, name)
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
    """Return whether the settings name another connection to the same cluster; the recorded may be broken."""
    keys = ("kubeconfig", "context")
    if all(connection.get(key, "") in ("", recorded.connection.get(key, "")) for key in keys):
        return False
    return _is_in(client_of(*(connection.get(key, "") for key in keys)), recorded)


def _refuse_switched(recorded: Recorded, name: str, connection: Mapping[str, str]) -> None:
    """Raise UserError if an `up` would move the experiment to another cluster."""
    here = client_of(connection.get("kubeconfig", ""), connection.get("context", ""))
    if not _is_in(here, recorded):
        context = recorded.connection.get("context")
        whose = "its settings name context" if connection.get("context") else "your current context is"
        of_file = _shown_file(recorded.connection.get("kubeconfig", ""), connection.get("kubeconfig", ""))
        raise UserError(
            f"{name} runs in the cluster of context {context}, but {whose} {here.access.context}{of_file}",
            remedy=f"To keep it there, run `pulumi config set kubernetes:context {context}`; to move it, run"
            f" `symphony delete {name}` first",
        )


def _shown_file(recorded: str, configured: str) -> str:
    """Return ` of PATH` if the settings now name another kubeconfig, else an empty string."""
    return "" if configured in ("", recorded) or kubeconfig.is_text(configured) else f" of {configured}"


def refuse_foreign_objects(client: Client, recorded: Recorded) -> None:
    """Raise UserError if another user replaced a Service or a file in a shared namespace."""
    # If the namespace is the experiment's, it is deleted as a whole.
    if NAMESPACE not in recorded.connection:
        _refuse_foreign(client, recorded, recorded.objects, paths.stack_of(recorded.owner))


def _refuse_foreign(client: Client, recorded: Recorded, uids: Mapping[str, str], name: str) -> None:
    """Raise UserError if the engine, which deletes by name, would delete an object of another owner.

    A killed `up` may have re-created an object, with another uid and this owner's annotation.
    """
    for place, body in _existing(client, uids):
        if text(body, "metadata", "uid") != uids[place] and not labels.belongs_to(body, recorded.owner):
            kind, own_name = place.split("/")[-2:]
            where = "" if kind == "namespaces" else f" in namespace {recorded.physical_name}"
            raise UserError(
                f"the {kind[:-1]} {own_name}{where} does not belong to {name}: another user re-created it"
                " (its UID differs)",
                remedy=f"{_forget(name)} and does not touch that {kind[:-1]}",
            )


def _forget(stack: str) -> str:
    return f"`pulumi stack rm {stack} --force` forgets the experiment"
