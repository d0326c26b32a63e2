"""Rules of environment variables: declared variables, service variables, inherited variables."""

from __future__ import annotations

from collections.abc import Iterator

from caraml import service_env
from symphony.plan import code
from symphony.plan.names import as_label, is_variable, quoted
from symphony.plan.problems import Problem
from symphony.plan.rules.services import served
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.location import Location

SECRETS_VARIABLE = "SYMPH_SECRETS_DIR"
CONFIGS_VARIABLE = "SYMPH_CONFIGS_DIR"
# Variables that symphony itself sets in every process.
OWN_VARIABLES = {
    "SYMPHONY_ID": "it identifies the process",
    SECRETS_VARIABLE: "it is the folder of the experiment's secrets",
    CONFIGS_VARIABLE: "it is the folder of the experiment's config files",
    code.VARIABLE: "it is the digest of the code",
}


def _declared(spec: ExperimentSpec) -> Iterator[tuple[str, str, Location]]:
    """Yield (owner, variable, line) for every variable that is set."""
    for owner_name, owner in spec.owners():
        for setting in ("env", "secret_env"):
            for name in getattr(owner, setting):
                yield owner_name, name, owner.at(f"{setting} {name}")


def variables_are_valid(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for owner_name, name, where in _declared(spec):
        if not is_variable(name):
            yield Problem(
                f"{owner_name} sets {quoted(name)}, which is not a valid variable name",
                'use letters, digits and "_", without a digit at the beginning',
                (where,),
            )


def variables_do_not_collide(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    # variable -> why it is not free, and the lines that use it.
    reasons: dict[str, tuple[str, tuple[Location, ...]]] = {
        name: (why, ()) for name, why in {**target.reserved, **OWN_VARIABLES}.items()
    }
    seen: set[str] = set()
    for service, servers in served(spec).items():
        # names_are_distinct reports services whose names differ only in dashes or case.
        if not target.is_valid(service, or_mapped=spec.accepts_classic_names) or as_label(service) in seen:
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
    for owner_name, name, where in _declared(spec):
        if name in reasons:
            reason, places = reasons[name]
            yield Problem(f"{owner_name} sets {name}, but {reason}", "use another variable", (where, *places))


def secrets_are_available(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
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


def inherit_is_valid(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    for name in spec.inherit:
        if not is_variable(name.removesuffix("*")):
            yield Problem(
                f"the experiment inherits {quoted(name)}, which is not the name of a variable",
                'use a name, or a prefix of names followed by "*"',
                (spec.at("inherit"),),
            )
        elif name in target.reserved:
            yield Problem(
                f"the experiment inherits {name}, but {target.reserved[name]}",
                "remove it from inherit: processes would not get it",
                (spec.at("inherit"),),
            )
