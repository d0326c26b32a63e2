"""Finds the cluster of an experiment, and tells its objects there from those of others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

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

# What `connection` calls the uid of the namespace that the experiment made.
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
            remedy=f"{again}; if it is gone for good, {_forget(stack)}",
        )
    return client


def ensure_reachable(recorded: Recorded) -> Client:
    """Return the cluster once it answers.

    Raises:
        SymphonyError: It does not; the remedy also covers one that is gone for good.
    """
    try:
        client = client_for(recorded)
        client.get("/version")
    except Unreachable as error:
        raise Unreachable(error.what, remedy=_or_forget(error.remedy, recorded)) from error
    return client


def _is_in(client: Client, recorded: Recorded) -> bool:
    """Return whether this is the cluster of an experiment.

    A user with other rights computes another identifier: then what the experiment has there tells.
    """
    pinned = recorded.connection.get("clusterIdentifier")
    shared = "" if NAMESPACE in recorded.connection else recorded.launched_as
    return not pinned or inventory.identifier(client, shared) == pinned or _has_some_of(client, recorded)


def _has_some_of(client: Client, recorded: Recorded) -> bool:
    """Return whether one of the recorded objects is in this cluster: no two have the same uid."""
    namespace, uids = recorded.launched_as, {str(facts["uid"]) for facts in recorded.processes.values()}
    pods = _found(lambda: client.items(path_of("pods", namespace)))
    if any(text(pod, "metadata", "uid") in uids for pod in pods):
        return True
    objects = {**recorded.objects}
    if NAMESPACE in recorded.connection:
        objects[path_of("namespaces", name=namespace)] = recorded.connection[NAMESPACE]
    return any(
        text(found, "metadata", "uid") == uid
        for place, uid in objects.items()
        for found in _found(lambda place=place: [client.find(place)])
    )


def _found(look: Callable[[], list[Any]]) -> list[Any]:
    """Return what there is; nothing where the user may not look."""
    try:
        return look()
    except Forbidden:
        return []


def _or_forget(remedy: str, recorded: Recorded) -> str:
    """Add to a remedy what helps where the cluster is gone for good."""
    first = f"{remedy.rstrip('.')}. " if remedy else ""
    return f"{first}If that cluster is gone for good, {_forget(paths.stack_of(recorded.owner))}"


def ensure_same_location(recorded: Recorded, name: str, connection: Mapping[str, str] | None) -> Recorded:
    """Raise UserError where the experiment is in another cluster than the next command would ask.

    connection: of its next `up`, which judges names by itself. The record is returned as that
    `up` reaches it.
    """
    if connection is not None and _has_other_connection(recorded, connection):
        return replace(recorded, connection={**recorded.connection, **connection})
    try:
        if connection is None:
            with short_timeouts():
                _refuse_foreign(client_for(recorded), recorded, name)
        else:
            client_for(recorded)
            _refuse_switched(recorded, name, connection)
    except UserError:
        raise
    except SymphonyError as error:
        # What only looks says in its own words that the cluster does not answer.
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


def _shown_file(recorded: str, given: str) -> str:
    """Return the path of the kubeconfig that the settings name now, where it is another."""
    return "" if given in ("", recorded) or kubeconfig.is_text(given) else f" of {given}"


def refuse_foreign_objects(client: Client, recorded: Recorded) -> None:
    """Raise UserError where another made a Service or a file that replaced ours in a shared namespace."""
    if NAMESPACE in recorded.connection:
        # It goes as a whole.
        return
    for place, existing in _existing_at(client, recorded.objects):
        if _is_foreign(existing, recorded.objects[place], recorded.owner):
            kind, name = place.split("/")[-2:]
            raise _foreign_error(
                f"the {kind[:-1]} {name} in namespace {recorded.launched_as}", paths.stack_of(recorded.owner)
            )


def _existing_at(client: Client, places: Collection[str]) -> Iterator[tuple[str, Values]]:
    """Yield the objects at some paths; Services may be many and are listed."""
    for folder in {place.rpartition("/")[0] for place in places if "/services/" in place}:
        with contextlib.suppress(Forbidden):
            there = {f"{folder}/{text(each, 'metadata', 'name')}": each for each in client.items(folder)}
            yield from ((place, there[place]) for place in places if place in there)
    for place in places:
        with contextlib.suppress(Forbidden):
            if "/services/" not in place and (existing := client.find(place)) is not None:
                yield place, existing


def _refuse_foreign(client: Client, recorded: Recorded, name: str) -> None:
    """Raise UserError where the engine would delete by its name an object that another made."""
    try:
        what = _foreign_object(client, recorded)
    except Forbidden:
        return
    if what:
        raise _foreign_error(what, name)


def _foreign_error(what: str, name: str) -> UserError:
    return UserError(
        f"{what} is not the one that {name} made: it was re-created by someone else (its UID differs)",
        remedy=f"{_forget(name)} and leaves theirs alone",
    )


def _foreign_object(client: Client, recorded: Recorded) -> str:
    """Return the name of an object that another made under a name of ours; empty when all are ours."""
    namespace, uid = recorded.launched_as, recorded.connection.get(NAMESPACE)
    if uid is not None:
        existing = client.find(path_of("namespaces", name=namespace))
        is_foreign = existing is not None and _is_foreign(existing, uid, recorded.owner)
        return f"the namespace {namespace}" if is_foreign else ""
    uids = {str(facts["pod_name"]): str(facts["uid"]) for facts in recorded.processes.values()}
    for pod in client.items(path_of("pods", namespace)) if uids else ():
        name = text(pod, "metadata", "name")
        if name in uids and _is_foreign(pod, uids[name], recorded.owner):
            return f"the pod {name} in namespace {namespace}"
    return ""


def _is_foreign(resource: Values, uid: str, owner: str) -> bool:
    """Return whether neither uid nor annotation is ours: a killed `up` may have made the object again."""
    return text(resource, "metadata", "uid") != uid and not labels.belongs_to(resource, owner)


def _forget(stack: str) -> str:
    return f"`pulumi stack rm {stack} --force` forgets the experiment"
