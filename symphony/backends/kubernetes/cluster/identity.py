"""Finds the cluster of an experiment, and distinguishes its objects from those of others."""

from __future__ import annotations

import contextlib
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
# By this key the engine marks the values that its state keeps encrypted.
_ENCRYPTED = "4dabf18193072939515e22adb298388d"
_OWN = (
    "The stack's kubernetes:kubeconfig is text, which its state keeps encrypted, so symphony uses your own"
    " kubeconfig: add that context to it, or write the text to a file and set kubernetes:kubeconfig to its"
    " path"
)


def client_for(recorded: Recorded) -> Client:
    """Return the cluster that the state names.

    Raises:
        UserError: The kubeconfig does not have that context any more, or it means another cluster.
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
            f"{stack} runs in another cluster than the one that context {context or '(current)'}"
            f"{' of your own kubeconfig' if hidden else ''} now reaches",
            remedy=f"{again}; if that cluster no longer exists, {_forget(stack)}",
        )
    return client


def ensure_reachable(recorded: Recorded) -> Client:
    """Return the cluster once it answers.

    Raises:
        SymphonyError: It does not; the remedy also covers a cluster that no longer exists.
    """
    try:
        client = client_for(recorded)
        client.get("/version")
    except Unreachable as error:
        raise Unreachable(error.what, remedy=_or_forget(error.remedy, recorded)) from error
    return client


def _is_in(client: Client, recorded: Recorded) -> bool:
    """Return whether this is the cluster of an experiment.

    A user with other rights computes another identifier: then a recorded object there tells.
    """
    pinned = recorded.connection.get("clusterIdentifier")
    shared = "" if NAMESPACE in recorded.connection else recorded.physical_name
    if not pinned or inventory.identifier(client, shared) == pinned:
        return True
    uids = _recorded_uids(recorded)
    return any(text(body, "metadata", "uid") == uids[place] for place, body in _existing(client, uids))


def _recorded_uids(recorded: Recorded) -> dict[str, str]:
    """Return the path of every recorded object -> its uid: no two clusters have the same."""
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


def _existing(client: Client, places: Collection[str]) -> Iterator[tuple[str, Values]]:
    """Yield the objects at some paths that the user may see; pods and Services may be many and are listed."""
    for folder in {place.rpartition("/")[0] for place in places}:
        own = [place for place in places if place.rpartition("/")[0] == folder]
        with contextlib.suppress(Forbidden):
            if folder.endswith(("/pods", "/services")):
                every = {f"{folder}/{text(body, 'metadata', 'name')}": body for body in client.items(folder)}
            else:
                every = {place: body for place in own if (body := client.find(place)) is not None}
            yield from ((place, every[place]) for place in own if place in every)


def _or_forget(remedy: str, recorded: Recorded) -> str:
    """Add to a remedy the one for a cluster that no longer exists."""
    first = f"{remedy.rstrip('.')}. " if remedy else ""
    return f"{first}If that cluster no longer exists, {_forget(paths.stack_of(recorded.owner))}"


def ensure_same_location(recorded: Recorded, name: str, connection: Mapping[str, str] | None) -> Recorded:
    """Raise UserError where the experiment is in another cluster than the next command would ask.

    connection: that of its next `up`, which checks names by itself. The record is returned with the way by
    which that `up` reaches the cluster.
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
        # A command that only looks reports by itself that the cluster does not answer.
        if connection is not None or (isinstance(error, Refused) and error.status == 401):
            raise
    return recorded


def _has_other_connection(recorded: Recorded, connection: Mapping[str, str]) -> bool:
    """Return whether the settings name another way to the same cluster: the recorded one may be broken."""
    ways = ("kubeconfig", "context")
    if all(connection.get(way, "") in ("", recorded.connection.get(way, "")) for way in ways):
        return False
    return _is_in(client_of(*(connection.get(way, "") for way in ways)), recorded)


def _refuse_switched(recorded: Recorded, name: str, connection: Mapping[str, str]) -> None:
    """Raise UserError where an `up` would move the experiment to another cluster."""
    here = client_of(connection.get("kubeconfig", ""), connection.get("context", ""))
    if not _is_in(here, recorded):
        context = recorded.connection.get("context")
        whose = "its settings name context" if connection.get("context") else "your current context is"
        of_file = _shown_file(recorded.connection.get("kubeconfig", ""), connection.get("kubeconfig", ""))
        raise UserError(
            f"{name} runs in the cluster of context {context}, and {whose} {here.access.context}{of_file}",
            remedy=f"`symphony delete {name}` ends it there; `pulumi config set kubernetes:context {context}`"
            " keeps it there",
        )


def _shown_file(recorded: str, configured: str) -> str:
    """Return the path of the kubeconfig that the settings name now, where it is another."""
    return "" if configured in ("", recorded) or kubeconfig.is_text(configured) else f" of {configured}"


def refuse_foreign_objects(client: Client, recorded: Recorded) -> None:
    """Raise UserError where another user replaced a Service or a file in a shared namespace."""
    # A namespace of the experiment is deleted as a whole.
    if NAMESPACE not in recorded.connection:
        _refuse_foreign(client, recorded, recorded.objects, paths.stack_of(recorded.owner))


def _refuse_foreign(client: Client, recorded: Recorded, uids: Mapping[str, str], name: str) -> None:
    """Raise UserError where the engine would delete by its name an object that another made.

    A killed `up` may have made an object again, with another uid and our annotation.
    """
    for place, body in _existing(client, uids):
        if text(body, "metadata", "uid") != uids[place] and not labels.belongs_to(body, recorded.owner):
            kind, own_name = place.split("/")[-2:]
            where = "" if kind == "namespaces" else f" in namespace {recorded.physical_name}"
            raise UserError(
                f"the {kind[:-1]} {own_name}{where} is not the one that {name} made: it was re-created by"
                " someone else (its UID differs)",
                remedy=f"{_forget(name)} and leaves theirs alone",
            )


def _forget(stack: str) -> str:
    return f"`pulumi stack rm {stack} --force` forgets the experiment"
