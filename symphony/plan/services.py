"""The addresses of services, and the SYMPH_* variables that carry them to processes."""

from collections.abc import Iterable, Mapping

from caraml import service_env
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.names import RENDEZVOUS, as_name, is_name
from symphony.plan.plan import Plan, PlannedProcess, PlannedService
from symphony.plan.rules import CONFIGS_VARIABLE, SECRETS_VARIABLE, servers_by_service
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.process import ProcessSpec


def fixed_ports(spec: ExperimentSpec) -> dict[str, int | None]:
    """Return the fixed port of every valid service; None if the backend must choose the port."""
    ports: dict[str, int | None] = {}
    for name, servers in servers_by_service(spec).items():
        fixed = [use.port for _, use in servers if use.port is not None]
        if is_name(name) or (spec.accepts_classic_names and as_name(name)):
            ports[name] = fixed[0] if fixed else None
    return ports


def resolve(spec: ExperimentSpec, limits: BackendLimits) -> tuple[PlannedService, ...]:
    """Return every service with its address on the backend, in the order of declaration."""
    fixed = {
        name: use.port
        for name, uses in servers_by_service(spec).items()
        for _, use in uses
        if use.port is not None
    }
    exposed = {use.name for _, process in spec.members() for use in process.exposes}
    services: dict[str, PlannedService] = {}
    for group, process in spec.members():
        for use in (*process.binds, *process.exposes):
            services[use.name] = PlannedService(
                name=limits.map_name(use.name),
                host=limits.host_of.format(service=limits.map_name(use.name)),
                port=fixed[use.name] if use.name in fixed else limits.ports[use.name],
                path=limits.path_of(group, process),
                exposed=use.name in exposed,
                declared=use.name if limits.map_name(use.name) != use.name else "",
            )
    return tuple(services.values())


def variables(services: tuple[PlannedService, ...]) -> dict[str, str]:
    """Return the SYMPH_* variables that every process gets."""
    env: dict[str, str] = {}
    for service in services:
        env.update(service_env.service_variables(service.name, service.host, service.port))
    return env


def used_variables(plan: Plan, process: PlannedProcess) -> dict[str, str]:
    """Return the variables of the services that a process uses; if they change, the process restarts."""
    uses = set(process.uses)
    used = variables(tuple(service for service in plan.services if service.name in uses))
    return {**used, **process.service_env}


def rendezvous_variables(
    process: ProcessSpec, services: Iterable[PlannedService], *, shares_gpus: bool
) -> dict[str, str]:
    """Return the variables through which equal workers find each other, as torchrun sets them.

    shares_gpus: Whether all workers see the same GPUs: they run on one machine, and none has its own.
    """
    if process.rendezvous is None:
        return {}
    name = process.rendezvous.service
    rendezvous = next(service for service in services if name in (service.declared, service.name))
    return {
        "RANK": str(process.rendezvous.rank),
        "LOCAL_RANK": str(process.rendezvous.rank if shares_gpus else 0),
        "WORLD_SIZE": str(process.rendezvous.size),
        "MASTER_ADDR": rendezvous.host,
        "MASTER_PORT": str(rendezvous.port),
        # Backends that move services look up this service's address when a worker starts.
        RENDEZVOUS: service_env.variable_names(rendezvous.name)[0].removesuffix("_HOST"),
    }


def file_variables(plan: Plan, secrets: str, configs: str) -> dict[str, str]:
    """Return the variables that name the folders of secret and config files, if the experiment has any."""
    folders = {SECRETS_VARIABLE: secrets} if plan.secrets else {}
    return folders | ({CONFIGS_VARIABLE: configs} if plan.configs else {})


def bind_variables(binds: tuple[str, ...], limits: BackendLimits) -> Mapping[str, str]:
    """Return the variables with the address to bind, for the services that a process binds."""
    return {service_env.bind_variable(service): limits.bind_host for service in binds}
