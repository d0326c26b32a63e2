"""The rules and remarks that check a declaration; a new rule is a function and a row in RULES."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast

from caraml import service_env
from symphony.plan import code
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.names import (
    MAX_NAME,
    as_label,
    as_name,
    did_you_mean,
    is_experiment,
    is_label,
    is_name,
    is_variable,
    label_remedy,
    name_remedy,
    quoted,
)
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec, path_of
from symphony.spec.location import Location
from symphony.spec.order import Dependency
from symphony.spec.pod import Mount
from symphony.spec.process import ProcessSpec, ServiceUse
from symphony.spec.setting import Setting, explicit_settings

# names


def physical_name_is_valid(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    is_valid, why_not = (is_label, label_remedy) if limits.names_are_dns_labels else (is_name, name_remedy)
    if not is_valid(limits.physical_name):
        yield Problem(
            f"the experiment cannot be called {quoted(limits.physical_name)} on {limits.backend}",
            f"{why_not(limits.physical_name)}; rename the stack or set symphony:namespace",
            (spec.where,),
        )


def experiment_name_is_valid(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    if not is_experiment(spec.name) and not (spec.accepts_classic_names and as_name(spec.name)):
        yield Problem(
            f"the experiment is called {quoted(spec.name)}, which is not a valid name",
            f'use letters, digits, "-", "_" and ".", at most {MAX_NAME}, with a letter or digit first',
            (spec.where,),
        )


def experiment_has_processes(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    if not any(True for _ in spec.members()):
        what = f"{quoted(spec.name)} has no process"
        yield Problem(what, "declare one with new_process(...)", (spec.where,))
        return
    for group in spec.groups:
        if not group.processes:
            what = f"process group {quoted(group.name)} has no process"
            remedy = "give it one with new_process(...), or remove the group"
            yield Problem(what, remedy, (group.where,))


def names_are_valid(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    for owner in (*spec.groups, *(process for _, process in spec.members())):
        if not limits.is_valid(owner.name, or_mapped=spec.accepts_classic_names):
            what = f"{_kind(owner)} {quoted(owner.name)} has an invalid name"
            yield Problem(what, name_remedy(owner.name), (owner.where,))


def _kind(owner: ProcessSpec | ProcessGroupSpec) -> str:
    return "process" if isinstance(owner, ProcessSpec) else "process group"


def names_are_unique(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    # Ungrouped processes and groups share a scope: on Kubernetes each becomes a pod of that name.
    yield from _repeated_names([*spec.processes, *spec.groups])
    for group in spec.groups:
        yield from _repeated_names(group.processes, within=f" in process group {quoted(group.name)}")


def _repeated_names(owners: Sequence[ProcessSpec | ProcessGroupSpec], within: str = "") -> Iterator[Problem]:
    first: dict[str, ProcessSpec | ProcessGroupSpec] = {}
    for owner in owners:
        name = as_label(owner.name) or owner.name
        other = first.setdefault(name, owner)
        if other is not owner and name:
            same = type(other) is type(owner)
            mistake = f"is declared twice{within}" if same else "has the same name as an ungrouped process"
            if other.name != owner.name:
                mistake = f"differs from {quoted(other.name)} only in -, _ or case"
            what = f"{_kind(owner)} {quoted(owner.name)} {mistake}"
            yield Problem(what, "give one of them another name", (other.where, owner.where))


# services


def _uses(spec: ExperimentSpec, *verbs: str) -> Iterator[tuple[str, str, ServiceUse]]:
    """Yield (path, verb, use) for every use of a service, in the order of `spec.members()`."""
    for group, process in spec.members():
        for verb in verbs or ("binds", "connects", "exposes"):
            for use in getattr(process, verb):
                yield path_of(group, process), verb, use


def servers_by_service(spec: ExperimentSpec) -> dict[str, list[tuple[str, ServiceUse]]]:
    """Return the processes that bind or expose each service; another rule refuses more than one."""
    servers: dict[str, list[tuple[str, ServiceUse]]] = defaultdict(list)
    for path, _, use in _uses(spec, "binds", "exposes"):
        servers[use.name].append((path, use))
    return servers


def services_have_valid_names(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    seen: set[str] = set()
    for path, verb, use in _uses(spec):
        if not limits.is_valid(use.name, or_mapped=spec.accepts_classic_names) and use.name not in seen:
            seen.add(use.name)
            what = f"{path} {verb} {quoted(use.name)}, which is not a valid name of a service"
            yield Problem(what, name_remedy(use.name), (use.where,))


def names_are_distinct(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    """Refuse names that become equal in a backend or in variables: web-1, web_1, Web-1."""
    first: dict[str, ServiceUse] = {}
    for path, verb, use in _uses(spec, "binds", "exposes"):
        other = first.setdefault(as_label(use.name) or use.name, use)
        if other.name != use.name:
            names = f"{quoted(use.name)}, which differs from {quoted(other.name)}"
            what = f"{path} {verb} {names} only in -, _ or case"
            yield Problem(what, "give one of them another name", (other.where, use.where))


def services_are_bound_once(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    for name, servers in servers_by_service(spec).items():
        processes = list(dict.fromkeys(path for path, _ in servers))
        if len(processes) > 1:
            others = ", ".join(processes[:-1])
            binders = f"{others} and {processes[-1]} {'both' if len(processes) == 2 else 'all'}"
            lines = tuple(use.where for _, use in servers)
            yield Problem(f"{binders} bind {quoted(name)}", "give one of the services another name", lines)
            continue
        ports = {use.port for _, use in servers if use.port is not None}
        if len(ports) > 1:
            yield Problem(
                f"{processes[0]} gives {quoted(name)} the ports {' and '.join(map(str, sorted(ports)))}",
                "set a single port",
                tuple(use.where for _, use in servers),
            )


def connects_to_what_is_bound(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    known = servers_by_service(spec)
    for path, _, use in _uses(spec, "connects"):
        if use.name not in known and limits.is_valid(use.name, or_mapped=spec.accepts_classic_names):
            listed = f"connect to one of: {', '.join(sorted(known))}"
            unknown = listed if known else f"bind it: binds={quoted(use.name)} on the process that serves it"
            remedy = did_you_mean(use.name, known, unknown)
            what = f"{path} connects to {quoted(use.name)}, which no process binds"
            yield Problem(what, remedy, (use.where,))


def no_port_in_connects(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    for path, _, use in _uses(spec, "connects"):
        if use.port is not None:
            yield Problem(
                f"{path} connects to {quoted(use.name)} with port {use.port}; only the process"
                " that binds it sets its port",
                "remove the port, or set it where the service is bound",
                (use.where,),
            )


def ports_are_declared_once(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    first: dict[tuple[str, int], tuple[str, ServiceUse]] = {}
    for path, _, use in _uses(spec, "binds", "exposes"):
        if use.port is None:
            continue
        machine = "" if limits.one_host else path.partition("/")[0]
        other_path, other = first.setdefault((machine, use.port), (path, use))
        if other.name != use.name:
            yield Problem(
                f"{path} gives {quoted(use.name)} port {use.port},"
                f" which {quoted(other.name)} of {other_path} already has",
                "give one of them another port, or omit the port",
                (other.where, use.where),
            )


def ports_are_free(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    ports = Counter(port for port, _ in {(use.port, use.name) for _, _, use in _uses(spec)})
    for name, servers in servers_by_service(spec).items():
        path, use = next((server for server in servers if server[1].port is not None), servers[0])
        if name in limits.refused and use.port is None:
            yield Problem(
                f"{path} gets no port for {quoted(name)}: {limits.refused[name]}",
                "free some ports, or widen port_range=(first, last)",
                (spec.at("port_range") if spec.port_range else use.where,),
            )
        # ports_are_declared_once reports a port that two services request.
        elif name in limits.refused and ports[use.port] == 1:
            yield Problem(
                f"{path} cannot have port {use.port} for {quoted(use.name)}: {limits.refused[use.name]}",
                "free that port, choose another, or omit it and symphony chooses a port",
                (use.where,),
            )


# environment variables

SECRETS_VARIABLE = "SYMPH_SECRETS_DIR"
CONFIGS_VARIABLE = "SYMPH_CONFIGS_DIR"
# Variables that symphony itself sets, some only on some backends or for some processes.
OWN_VARIABLES = {
    "SYMPHONY_ID": "it identifies the process",
    SECRETS_VARIABLE: "it is the folder of the experiment's secrets",
    CONFIGS_VARIABLE: "it is the folder of the experiment's config files",
    code.VARIABLE: "it is the digest of the code",
}


def _declared_variables(spec: ExperimentSpec) -> Iterator[tuple[str, str, Location]]:
    """Yield (owner, variable, line) for every variable that is set."""
    for owner_name, owner in spec.owners():
        for setting in ("env", "secret_env"):
            for name in getattr(owner, setting):
                yield owner_name, name, owner.at(f"{setting} {name}")


def variables_are_valid(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    for owner_name, name, where in _declared_variables(spec):
        if not is_variable(name):
            yield Problem(
                f"{owner_name} sets {quoted(name)}, which is not a valid variable name",
                'use letters, digits and "_", without a digit at the beginning',
                (where,),
            )


def variables_do_not_collide(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    # variable -> why it is not free, and the lines that use it.
    reasons: dict[str, tuple[str, tuple[Location, ...]]] = {
        name: (why, ()) for name, why in {**limits.reserved, **OWN_VARIABLES}.items()
    }
    seen: set[str] = set()
    for service, servers in servers_by_service(spec).items():
        # names_are_distinct reports services whose names differ only in dashes or case.
        if not limits.is_valid(service, or_mapped=spec.accepts_classic_names) or as_label(service) in seen:
            continue
        seen.add(as_label(service))
        where = tuple(use.where for _, use in servers)
        for variable in (*service_env.variable_names(service), service_env.bind_variable(service)):
            reason, places = reasons.setdefault(variable, (f"it belongs to service {quoted(service)}", where))
            if places != where:
                yield Problem(
                    f"service {quoted(service)} needs the variable {variable}, but {reason}",
                    "rename one of the services" if places else "rename the service",
                    (*places, *where),
                )
    for owner_name, name, where in _declared_variables(spec):
        if name in reasons:
            reason, places = reasons[name]
            yield Problem(f"{owner_name} sets {name}, but {reason}", "use another variable", (where, *places))


def secrets_are_available(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    for owner_name, owner in spec.owners():
        for name, secret in owner.secret_env.items():
            where = (owner.at(f"secret_env {name}"),)
            if secret.trouble:
                source = f" from {quoted(secret.source)}" if secret.source else ""
                yield Problem(
                    f"cannot set {name} for {owner_name}{source}: {secret.trouble}",
                    "set it to the path of a file with the value, or to config.require_secret(...)",
                    where,
                )
            if name in owner.env:
                yield Problem(
                    f"{owner_name} sets {name} in env and in secret_env",
                    "remove one of them",
                    (owner.at(f"env {name}"), *where),
                )


def inherit_is_valid(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    for name in spec.inherit:
        if not is_variable(name.removesuffix("*")):
            yield Problem(
                f"the experiment inherits {quoted(name)}, which is not the name of a variable",
                'use a name, or a prefix of names followed by "*"',
                (spec.at("inherit"),),
            )
        elif name in limits.reserved:
            yield Problem(
                f"the experiment inherits {name}, but {limits.reserved[name]}",
                "remove it from inherit: processes would not get it",
                (spec.at("inherit"),),
            )


# probes

PROBES = ("readiness_probe", "liveness_probe")


def probes_check_own_services(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    """Refuse a probe of a service that its process does not bind, and an http probe without a clear port."""
    for group, process in spec.members():
        path, served = path_of(group, process), services_of(process)
        for setting in PROBES:
            probe = getattr(process, setting)
            if probe is None:
                continue
            port = probe.tcp if probe.http is None else probe.port
            where = (process.at(setting),)
            if probe.http is not None and port is None and len(served) != 1:
                what = f"the {setting} of {path} has http without a port"
                example = f'port="{served[0]}"' if served else "port=8080"
                yield Problem(what, f"add {example}", where)
            if isinstance(port, str) and port not in served:
                listed = f"use one of: {', '.join(served)}" if served else "bind that service, or give a port"
                remedy = did_you_mean(port, served, listed)
                yield Problem(
                    f"the {setting} of {path} checks {quoted(port)}, which {path} does not bind",
                    remedy,
                    where,
                )


def liveness_probes_read_no_logs(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    """Refuse a liveness probe by log: an old line does not show that the process works now."""
    for group, process in spec.members():
        if process.liveness_probe is not None and process.liveness_probe.log is not None:
            path = path_of(group, process)
            what = (
                f"the liveness_probe of {path} reads the log, which cannot show that the process still works"
            )
            yield Problem(what, "use tcp, http or exec", (process.at("liveness_probe"),))


def services_of(process: ProcessSpec) -> list[str]:
    """Return the services that a process binds, or exposes if it binds none."""
    return list(dict.fromkeys(use.name for use in process.binds or process.exposes))


# pod settings, checked on every backend, so that a program can move to Kubernetes


def pod_settings_belong_to_the_group(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    for group, process in spec.members():
        if group is None:
            continue
        for setting, _ in explicit_settings(process.pod):
            path = path_of(group, process)
            yield Problem(
                f"{path} sets {setting.name}, which belongs to its process group {quoted(group.name)}",
                "set it on the group: its processes share one pod",
                (process.at(setting.name),),
            )


def gpus_suffice(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    for group, process in spec.members():
        count = process.resource_limit.gpu
        if count and limits.gpus and count > limits.gpus:
            yield Problem(
                f"{path_of(group, process)} asks for {count} GPUs, but this machine has {limits.gpus}",
                "ask for fewer, or run it on Kubernetes",
                (process.at("resource_limit gpu"),),
            )


def mounts_are_valid(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    for part_name, part in spec.parts():
        for mount in part.mounts:
            if not mount.mount_path.startswith("/"):
                yield Problem(
                    f"{part_name} mounts at {quoted(mount.mount_path)}, which is not an absolute path",
                    "give an absolute path",
                    (mount.where,),
                )
            if mount.name is not None and not is_label(mount.name):
                what = f"{part_name} mounts a volume called {quoted(mount.name)}, which is not a valid name"
                yield Problem(what, label_remedy(mount.name), (mount.where,))


def mounts_do_not_clash(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    for group in spec.groups:
        yield from _clashes(f"process group {group.name}", (), group.mounts)
    for group, process in spec.members():
        yield from _clashes(path_of(group, process), group.mounts if group else (), process.mounts)


def _clashes(owner_name: str, inherited: tuple[Mount, ...], mounts: tuple[Mount, ...]) -> Iterator[Problem]:
    taken = {mount.mount_path: mount.where for mount in inherited}
    for mount in mounts:
        if mount.mount_path in taken:
            yield Problem(
                f"{owner_name} mounts two things at {quoted(mount.mount_path)}",
                "give one of them another mount_path",
                (taken[mount.mount_path], mount.where),
            )
        taken.setdefault(mount.mount_path, mount.where)


# dependencies and ends


def waits(spec: ExperimentSpec) -> Iterator[tuple[str, Dependency, list[str]]]:
    """Yield (path, dependency, paths that it names) for every process; unknown names have no paths."""
    by_name = paths_by_name(spec)
    services = {name: [path for path, _ in servers] for name, servers in servers_by_service(spec).items()}
    for group, process in spec.members():
        path = path_of(group, process)
        for dependency in dependencies_of(group, process):
            paths = (services if dependency.service else by_name).get(dependency.on, [])
            # A process that waits for its own group waits for the other processes of the group.
            is_own_group = group is not None and dependency.on == group.name
            yield path, dependency, [on for on in paths if not (is_own_group and on == path)]


def dependencies_of(group: ProcessGroupSpec | None, process: ProcessSpec) -> tuple[Dependency, ...]:
    """Return the dependencies of a process and of its group."""
    return (*(group.depends_on if group is not None else ()), *process.depends_on)


def order_fits_pods(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    """Refuse waits within a process group and cycles of groups, unless all share one machine."""
    if limits.one_host:
        return
    edges: dict[str, dict[str, Dependency]] = {}
    for path, dependency, paths in waits(spec):
        pod = path.partition("/")[0]
        for on in paths:
            other_pod = on.partition("/")[0]
            if other_pod != pod:
                edges.setdefault(pod, {})[other_pod] = dependency
            elif on != path:
                group = f"processes of a group cannot wait for one another on {limits.backend}"
                what = f"{path} waits for {on}, but {group}"
                yield Problem(what, "move one of them out of the group", (dependency.where,))
    has_own_cycle = any(order_has_no_cycle(spec, limits))
    for cycle in () if has_own_cycle else _cycles(edges):
        why = f"on {limits.backend} groups must not wait in a cycle"
        what = f"{cycle[0]} waits for itself: {' -> '.join(cycle)}; {why}"
        lines = tuple(edges[pod][on].where for pod, on in itertools.pairwise(cycle))
        yield Problem(what, "remove one of these dependencies", lines)


def supervisor_has_its_name(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    """Refuse, on every backend, a process that has the name of the supervisor's window in tmux."""
    for process in spec.processes:
        if process.name == "symphony":
            what = 'a process is called "symphony", which is the name of the supervisor\'s window in tmux'
            yield Problem(what, "rename the process", (process.where,))


def dependencies_are_known(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    by_name = paths_by_name(spec)
    for path, dependency, paths in waits(spec):
        name = dependency.on
        # connects_to_what_is_bound reports a service that no process binds.
        if not paths and not dependency.service and name not in by_name:
            remedy = did_you_mean(name, by_name, "declare it, or remove the dependency")
            what = f"{path} waits for {quoted(name)}, which is not declared"
            yield Problem(what, remedy, (dependency.where,))


def order_has_no_cycle(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    edges: dict[str, dict[str, Dependency]] = {}
    for path, dependency, paths in waits(spec):
        edges.setdefault(path, {}).update(dict.fromkeys(paths, dependency))
    for cycle in _cycles(edges):
        lines = tuple(edges[path][on].where for path, on in itertools.pairwise(cycle))
        what = f"{cycle[0]} waits for itself: {' -> '.join(cycle)}"
        yield Problem(what, "remove one of these dependencies", lines)


def ends_are_valid(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    """Refuse unknown primaries, primaries that never complete, and limits of 0 seconds."""
    by_name = paths_by_name(spec)
    policies = {
        path_of(group, process): (group or process).pod.restart_policy for group, process in spec.members()
    }
    for name in spec.primary:
        if name not in by_name:
            remedy = did_you_mean(name, by_name, "declare it, or remove it from primary")
            yield Problem(f"the primary {quoted(name)} is not declared", remedy, (spec.at("primary"),))
        for path in by_name.get(name, ()):
            if policies[path] == "Always":
                what = f"the primary {path} has the restart policy Always, so it never completes"
                yield Problem(what, 'set its restart_policy to "OnFailure" or "Never"', (spec.at("primary"),))
    for setting in ("stop_after", "idle_after"):
        if getattr(spec, setting) == 0:
            yield Problem(
                f"{setting} is 0 seconds", 'set a duration such as "30m" or "8h"', (spec.at(setting),)
            )


def paths_by_name(spec: ExperimentSpec) -> dict[str, list[str]]:
    """Return the paths that each name refers to: a single process, or all processes of a group."""
    by_name: dict[str, list[str]] = {group.name: [] for group in spec.groups}
    for group, process in spec.members():
        path = path_of(group, process)
        by_name[path] = [path]
        if group is not None:
            by_name[group.name].append(path)
    return by_name


def _cycles(edges: Mapping[str, Mapping[str, Dependency]]) -> Iterator[list[str]]:
    """Yield the paths of cycles, with the first path again at the end; no two cycles share a dependency."""
    while True:
        try:
            TopologicalSorter(edges).prepare()
        except CycleError as error:
            cycle: list[str] = error.args[1][::-1]
        else:
            return
        yield cycle
        # By id(): the processes of a group share its Dependency objects; others may have equal ones.
        told = {id(edges[path][on]) for path, on in itertools.pairwise(cycle)}
        edges = {
            path: {on: dependency for on, dependency in others.items() if id(dependency) not in told}
            for path, others in edges.items()
        }


# commands, images, and texts that an operating system can pass to a process

# Linux refuses one argument or variable longer than this (MAX_ARG_STRLEN), with its terminating NUL.
MAX_TEXT = 131_071
# The limit of all texts together: ARG_MAX, a quarter of the usual 8 MiB stack, less the inherited variables.
MAX_TEXTS = 2_000_000


def arguments_fit(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    for group, process in spec.members():
        texts = (*(process.command or ()), *process.args, *process.env, *process.env.values())
        # Linux also counts a pointer and a NUL for each text.
        size = sum(len(text.encode("utf-8", "surrogatepass")) + 9 for text in texts)
        if size > MAX_TEXTS:
            yield Problem(
                f"{path_of(group, process)} has {size} bytes of arguments and env, more than the {MAX_TEXTS}"
                " that Linux allows",
                "write them to a file and pass the file's name",
                (process.at("args"),),
            )


def processes_have_a_command(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    for group, process in spec.members():
        path = path_of(group, process)
        if limits.starts == "image":
            if not (process.image or (group and group.image) or spec.image or limits.defaults.get("image")):
                yield Problem(
                    f"{path} has no image, and {limits.backend} needs an image to start it",
                    'set image="...", or a default with symphony:image',
                    (process.where,),
                )
        elif not process.command and not process.cmds:
            what = "args but no command" if process.args else "no command"
            yield Problem(
                f"{path} has {what}, and {limits.backend} needs a command to start it",
                'set command="python", args=["-u", "program.py"], or cmds=["shell line", ...]',
                (process.where,),
            )
        elif process.command and not process.command[0]:
            remedy = 'set it to a program, such as command="python"'
            yield Problem(f"{path} has an empty command", remedy, (process.at("command"),))


def commands_can_start(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    for group, process in spec.members():
        if reason := limits.unstartable.get(path_of(group, process)):
            program = (process.command or ("",))[0]
            remedy = _remedy(program, "check the command's spelling, PATH and permissions")
            if program.startswith("~"):
                remedy = "no shell expands it: use os.path.expanduser in your program"
            yield Problem(
                f"{path_of(group, process)} cannot start {quoted(program)}: {reason}",
                remedy,
                (process.at("command"),),
            )


def _remedy(path: str, otherwise: str) -> str:
    """Return the remedy for a path that does not exist: one with a `$` was written for a shell."""
    return "no shell expands it: use os.path.expandvars in your program" if "$" in path else otherwise


def _all_texts(spec: ExperimentSpec) -> Iterator[tuple[str, str, str, Location]]:
    """Yield (owner, setting, text, line) for every text that a process gets."""
    for owner_name, owner in spec.owners():
        for setting, value in explicit_settings(owner):
            for part, text in _parts(setting, value):
                yield owner_name, part, text, owner.at(part)


def _parts(setting: Setting, value: Any) -> Iterator[tuple[str, str]]:
    """Yield (setting, text) for every text of a setting; that of a variable is `env NAME`, `NAME=value`."""
    if setting.name == "env":
        yield from ((f"env {name}", f"{name}={text}") for name, text in value.items())
    elif setting.keyword and isinstance(value, (str, tuple)):
        texts = cast("tuple[Any, ...]", (value,) if isinstance(value, str) else value)
        yield from ((setting.name, text) for text in texts if isinstance(text, str))


def texts_are_passable(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    for owner_name, setting, text, where in _all_texts(spec):
        for what, remedy in _troubles(f"{setting} of {owner_name}", setting, text):
            yield Problem(what, remedy, (where,))
        if setting == "start_dir" and text in limits.unreadable and "\0" not in text:
            what = f"{owner_name} cannot start in {quoted(text)}: {limits.unreadable[text]}"
            yield Problem(what, _remedy(text, "correct start_dir, or create that folder"), (where,))


def _troubles(whose: str, setting: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the problems of a text, as (what, remedy)."""
    # variables_are_valid checks the name of a variable.
    value = text.partition("=")[2] if setting.startswith("env ") else text
    if "\0" in value:
        yield (
            f"{whose} contains a NUL byte: {quoted(text, 30)}",
            "remove that byte: arguments and variables cannot contain NUL",
        )
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        yield (
            f"{whose} is not valid Unicode: {quoted(text, 30)}",
            "remove those characters: they come from bytes that are not UTF-8",
        )
    size = len(text.encode("utf-8", "surrogatepass"))
    # tmux and Slurm write shell lines to a script, which has no such limit; Kubernetes has a rule of its own.
    if size > MAX_TEXT and setting not in ("cmds", "preamble_cmds"):
        yield (
            f"{whose} has {size} bytes, more than the {MAX_TEXT} that Linux allows",
            "write the text to a file and pass the file's name",
        )


def code_exists(spec: ExperimentSpec, _limits: BackendLimits) -> Iterator[Problem]:
    for owner_name, owner in spec.owners():
        for text in owner.code:
            if (code := spec.code_files.get(text)) is not None and code.trouble:
                yield Problem(
                    f"code={quoted(text)} of {owner_name} cannot be used: {code.trouble}",
                    _remedy(text, "name a file, a folder or a glob, relative to the project's folder"),
                    (owner.at("code"),),
                )


def files_are_readable(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    yield from _files("secrets", "secret file", spec.secrets, spec, limits)
    yield from _files("configs", "config file", spec.configs, spec, limits)


def _files(
    setting: str, kind: str, files: tuple[str, ...], spec: ExperimentSpec, limits: BackendLimits
) -> Iterator[Problem]:
    by_name: dict[str, str] = {}
    for file in files:
        if file in limits.unreadable:
            yield Problem(
                f"the {kind} {quoted(file)} cannot be read: {limits.unreadable[file]}",
                _remedy(file, "check its path and permissions"),
                (spec.at(setting),),
            )
        name = file.rpartition("/")[2]
        if by_name.setdefault(name, file) != file:
            yield Problem(
                f"two {kind}s are called {quoted(name)}: {by_name[name]} and {file}",
                "rename one of them: both are put into the same folder",
                (spec.at(setting),),
            )


Rule = Callable[[ExperimentSpec, BackendLimits], Iterator[Problem]]

RULES: tuple[Rule, ...] = (
    physical_name_is_valid,
    experiment_name_is_valid,
    experiment_has_processes,
    names_are_valid,
    names_are_unique,
    services_have_valid_names,
    names_are_distinct,
    services_are_bound_once,
    connects_to_what_is_bound,
    no_port_in_connects,
    ports_are_declared_once,
    ports_are_free,
    order_fits_pods,
    supervisor_has_its_name,
    dependencies_are_known,
    order_has_no_cycle,
    ends_are_valid,
    probes_check_own_services,
    liveness_probes_read_no_logs,
    variables_are_valid,
    variables_do_not_collide,
    secrets_are_available,
    inherit_is_valid,
    processes_have_a_command,
    texts_are_passable,
    arguments_fit,
    code_exists,
    files_are_readable,
    commands_can_start,
    pod_settings_belong_to_the_group,
    gpus_suffice,
    mounts_are_valid,
    mounts_do_not_clash,
)


def check(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    """Yield every problem, rule by rule, then the problems that the backend found."""
    for rule in RULES:
        yield from rule(spec, limits)
    yield from limits.problems


# The word must end the name or precede an underscore, so that TOKENIZERS_PARALLELISM does not match.
_SECRET_NAME = re.compile(r"(?i).*(TOKEN|KEY|PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIALS?)(_.*)?")
# Values that are no secrets under any name: a path, a number, a flag.
_NO_SECRET = re.compile(r"[~./].*|[\d.]*|(?i:true|false|none|yes|no|on|off)")
_SHELLS = re.compile(r"(.*/)?((ba|da|z|k|fi)?sh|ssh)")
_SHELL_WORD = re.compile(
    r"\d*(>>?|<)(&\d|[\w./-]+)?|&>>?|\|\|?|&&?|\S*;|~(/\S*)?|\S*\$(\{[A-Z_]\w*\}|[A-Z_]\w*)\S*"
)
_EXPANDED_BY_SHELLS = re.compile(r"^~(/|$)|:~/|\$(\{[A-Z_]\w*\}|[A-Z_]\w*)")
# Programs that do nothing useful without arguments.
_NEEDS_MORE = re.compile(r"(.*/)?(python[\d.]*|sleep|echo|cat|torchrun|((ba|da|z)?sh))")
_NO_COMMAND = re.compile(r"-.*|[\d.]+|\w+\.\w+")


def remarks(spec: ExperimentSpec) -> tuple[Problem, ...]:
    """Return all remarks, kind by kind."""
    return tuple(remark for kind in _KINDS for remark in kind(spec))


def _plain_secrets(spec: ExperimentSpec) -> Iterator[Problem]:
    for owner_name, owner in spec.owners():
        for name, value in owner.env.items():
            if _SECRET_NAME.fullmatch(name) and not _NO_SECRET.fullmatch(value):
                yield Problem(
                    f"{owner_name} sets {name} in env: it looks like a secret, but state and plan show it",
                    f'write the value to a file, and set secret_env={{"{name}": "FILE"}}',
                    (owner.at(f"env {name}"),),
                )


def _unexpanded_env(spec: ExperimentSpec) -> Iterator[Problem]:
    for owner_name, owner in spec.owners():
        for name, value in owner.env.items():
            if _EXPANDED_BY_SHELLS.search(value):
                yield Problem(
                    f"{owner_name} sets {name} to {quoted(value, 30)}, which no shell expands",
                    "expand it in Python with os.path.expandvars or os.path.expanduser",
                    (owner.at(f"env {name}"),),
                )


def _words_of_a_shell(spec: ExperimentSpec) -> Iterator[Problem]:
    for group, process in spec.members():
        words = (*(process.command or ()), *process.args)
        if any(map(_SHELLS.fullmatch, words)) or "-exec" in words:
            continue
        for setting, texts in (("command", process.command or ()), ("args", process.args)):
            if word := next(filter(_SHELL_WORD.fullmatch, texts), None):
                yield Problem(
                    f"{path_of(group, process)} has {quoted(word, 30)} in {setting}, but no shell runs it",
                    'use cmds=["..."] for shell syntax',
                    (process.at(setting),),
                )


def _one_command_in_lines(spec: ExperimentSpec) -> Iterator[Problem]:
    for group, process in spec.members():
        first, *rest = process.cmds or ("",)
        single = not any(re.search(r"\s", line) for line in process.cmds)
        if rest and single and (_NEEDS_MORE.fullmatch(first) or any(map(_NO_COMMAND.fullmatch, rest))):
            yield Problem(
                f"{path_of(group, process)} has {len(process.cmds)} shell lines,"
                f" {quoted(first, 20)} and {quoted(rest[0], 20)}{', ...' if rest[1:] else ''}",
                f"did you mean command={quoted(' '.join(process.cmds), 60)}?",
                (process.at("cmds"),),
            )


_KINDS: tuple[Callable[[ExperimentSpec], Iterator[Problem]], ...] = (
    _plain_secrets,
    _unexpanded_env,
    _words_of_a_shell,
    _one_command_in_lines,
)
