"""Rules of services: names, which process binds them, ports."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from symphony.plan.names import as_label, did_you_mean, name_remedy, quoted
from symphony.plan.problems import Problem
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, path_of
from symphony.spec.process import ServiceUse


def _uses(spec: ExperimentSpec, *verbs: str) -> Iterator[tuple[str, str, ServiceUse]]:
    """Yield (path, verb, use) for every service, in the order of the program."""
    for group, process in spec.members():
        for verb in verbs or ("binds", "connects", "exposes"):
            for use in getattr(process, verb):
                yield path_of(group, process), verb, use


def served(spec: ExperimentSpec) -> dict[str, list[tuple[str, ServiceUse]]]:
    """Return the processes that bind or expose each service; another rule refuses more than one."""
    servers: dict[str, list[tuple[str, ServiceUse]]] = defaultdict(list)
    for path, _, use in _uses(spec, "binds", "exposes"):
        servers[use.name].append((path, use))
    return servers


def names_are_valid(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    seen: set[str] = set()
    for path, verb, use in _uses(spec):
        if not target.is_valid(use.name, or_mapped=spec.accepts_classic_names) and use.name not in seen:
            seen.add(use.name)
            what = f"{path} {verb} {quoted(use.name)}, which is not a valid name of a service"
            yield Problem(what, name_remedy(use.name), (use.where,))


def names_are_distinct(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    """Refuse names that become equal in a backend or in variables: web-1, web_1, Web-1."""
    first: dict[str, ServiceUse] = {}
    for path, _, use in _uses(spec, "binds", "exposes"):
        other = first.setdefault(as_label(use.name) or use.name, use)
        if other.name != use.name:
            names = f"{quoted(use.name)}, which differs from {quoted(other.name)}"
            what = f"{path} binds {names} only in -, _ or case"
            yield Problem(what, "give one of them another name", (other.where, use.where))


def services_are_bound_once(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for name, servers in served(spec).items():
        paths = list(dict.fromkeys(path for path, _ in servers))
        if len(paths) > 1:
            binders = f"{', '.join(paths[:-1])} and {paths[-1]} {'both' if len(paths) == 2 else 'all'}"
            lines = tuple(use.where for _, use in servers)
            yield Problem(f"{binders} bind {quoted(name)}", "give one of the services another name", lines)
            continue
        ports = {use.port for _, use in servers if use.port is not None}
        if len(ports) > 1:
            yield Problem(
                f"{paths[0]} gives {quoted(name)} the ports {' and '.join(map(str, sorted(ports)))}",
                "set a single port",
                tuple(use.where for _, use in servers),
            )


def connects_to_what_is_bound(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    known = served(spec)
    for path, _, use in _uses(spec, "connects"):
        if use.name not in known and target.is_valid(use.name, or_mapped=spec.accepts_classic_names):
            listed = f"connect to one of: {', '.join(sorted(known))}"
            unknown = listed if known else f"bind it: binds={quoted(use.name)} on the process that serves it"
            remedy = did_you_mean(use.name, known, unknown)
            what = f"{path} connects to {quoted(use.name)}, which no process binds"
            yield Problem(what, remedy, (use.where,))


def no_port_in_connects(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for path, _, use in _uses(spec, "connects"):
        if use.port is not None:
            yield Problem(
                f"{path} connects to {quoted(use.name)} with port {use.port}, which its binder sets",
                "remove the port, or set it where the service is bound",
                (use.where,),
            )


def ports_are_in_range(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for path, verb, use in _uses(spec, "binds", "exposes"):
        if use.port is not None and not 1 <= use.port <= 65535:
            yield Problem(
                f"{path} {verb} {quoted(use.name)} at port {use.port}",
                "use a port from 1 to 65535, or omit it and symphony chooses a port",
                (use.where,),
            )


def ports_are_declared_once(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    first: dict[tuple[str, int], tuple[str, ServiceUse]] = {}
    for path, _, use in _uses(spec, "binds", "exposes"):
        if use.port is None:
            continue
        machine = "" if target.one_host else path.partition("/")[0]
        other_path, other = first.setdefault((machine, use.port), (path, use))
        if other.name != use.name:
            yield Problem(
                f"{path} gives {quoted(use.name)} port {use.port},"
                f" which {quoted(other.name)} of {other_path} has",
                "give one of them another port, or omit the port",
                (other.where, use.where),
            )


def ports_are_free(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    ports = Counter(port for port, _ in {(use.port, use.name) for _, _, use in _uses(spec)})
    for name, servers in served(spec).items():
        path, use = next((server for server in servers if server[1].port is not None), servers[0])
        if name in target.refused and use.port is None:
            yield Problem(
                f"{path} gets no port for {quoted(name)}: {target.refused[name]}",
                "free some ports, or widen port_range=(first, last)",
                (spec.at("port_range") if spec.port_range else use.where,),
            )
        # ports_are_declared_once reports a port that two services request.
        elif name in target.refused and ports[use.port] == 1:
            yield Problem(
                f"{path} cannot have port {use.port} for {quoted(use.name)}: {target.refused[use.name]}",
                "free that port, choose another, or omit it and symphony chooses a port",
                (use.where,),
            )
