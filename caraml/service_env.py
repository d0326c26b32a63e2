"""The `SYMPH_*` environment variables of services, written by symphony and read by sockets.

This module imports nothing, so that symphony can use it without loading ZeroMQ.

Every process of an experiment finds a service `replay-server` in these variables:

* `SYMPH_REPLAY_SERVER_HOST`, `SYMPH_REPLAY_SERVER_PORT`, `SYMPH_REPLAY_SERVER_ADDR` (`host:port`): the
  address to connect to;
* `SYMPH_REPLAY_SERVER_BIND`, only in the process that binds the service: the host to bind. On Kubernetes the
  host to connect to is a DNS name that cannot be bound, so this is `0.0.0.0`; in tmux it is the loopback
  address.

>>> variable_names("replay-server")
('SYMPH_REPLAY_SERVER_HOST', 'SYMPH_REPLAY_SERVER_PORT', 'SYMPH_REPLAY_SERVER_ADDR')
>>> environment = service_variables("replay-server", "replay.rl.svc", 7000, bind_host="0.0.0.0")
>>> environment["SYMPH_REPLAY_SERVER_ADDR"]
'replay.rl.svc:7000'
>>> connector_endpoint("replay-server", environment), binder_endpoint("replay-server", environment)
(('replay.rl.svc', 7000), ('0.0.0.0', 7000))
"""

PREFIX = "SYMPH_"
ALL_INTERFACES = "*"
_SUFFIXES = ("_HOST", "_PORT", "_ADDR", "_BIND")
_MAX_LISTED = 24


class CaramlError(Exception):
    """The base class of all errors of caraml, defined here because caraml.errors imports this module."""

    __module__ = "caraml.errors"


class ServiceVariableError(CaramlError, LookupError):
    """The environment variable of a service is missing or invalid.

    Attributes:
        service: The name of the service.
        variable: The environment variable.
        services: The services that the environment has.
    """

    def __init__(self, service: str, variable: str, reason: str, environment: dict[str, str]) -> None:
        names = variables(environment)
        listed = ", ".join(names[:_MAX_LISTED]) or "none"
        if len(names) > _MAX_LISTED:
            listed += f" and {len(names) - _MAX_LISTED} more"
        self.service = service
        self.variable = variable
        self.services = services(environment)
        known = ", ".join(self.services) or "none"
        super().__init__(
            f"service {service!r}: {variable} {reason}; "
            f"services of this process: {known} (variables: {listed})"
        )


def service_stem(service: str) -> str:
    """Return a service's name as in its variables: in upper case, with `_` for other characters.

    The plan refuses two services with the same stem.
    """
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in service.upper())


def variable_names(service: str) -> tuple[str, str, str]:
    """Return the variables of a service in every process: host, port and address (`host:port`)."""
    stem = PREFIX + service_stem(service)
    return stem + "_HOST", stem + "_PORT", stem + "_ADDR"


def bind_variable(service: str) -> str:
    """Return the variable that holds the host to bind."""
    return PREFIX + service_stem(service) + "_BIND"


def service_variables(service: str, host: str, port: int, bind_host: str | None = None) -> dict[str, str]:
    """Return the variables of a service; `bind_host` only for the process that binds it."""
    host_name, port_name, address_name = variable_names(service)
    bracketed = f"[{host}]" if ":" in host else host
    variables = {host_name: host, port_name: str(port), address_name: f"{bracketed}:{port}"}
    if bind_host is not None:
        variables[bind_variable(service)] = bind_host
    return variables


def variables(environment: dict[str, str]) -> tuple[str, ...]:
    """Return the names of the services' variables in an environment, sorted."""
    return tuple(sorted(name for name in environment if name.startswith(PREFIX) and name.endswith(_SUFFIXES)))


def services(environment: dict[str, str]) -> tuple[str, ...]:
    """Return the services in an environment, sorted, in lower case with `-`."""
    stems = {name[len(PREFIX) : -len("_PORT")] for name in variables(environment)}
    return tuple(sorted(stem.lower().replace("_", "-") for stem in stems))


def connector_endpoint(service: str, environment: dict[str, str]) -> tuple[str, int]:
    """Return the host and port to connect to. Raises ServiceVariableError."""
    host_name, _, _ = variable_names(service)
    return _variable(service, host_name, environment), _port(service, environment)


def binder_endpoint(service: str, environment: dict[str, str]) -> tuple[str, int]:
    """Return the host and port to bind. Raises ServiceVariableError.

    Without the bind variable: the host if it is an address or `localhost`, else all interfaces (`*`).
    """
    port = _port(service, environment)
    bind_host = environment.get(bind_variable(service))
    if bind_host:
        return bind_host, port
    host = _variable(service, variable_names(service)[0], environment)
    return (host if is_ip_literal(host) or host == "localhost" else ALL_INTERFACES), port


def is_ip_literal(host: str) -> bool:
    """Return True for `10.0.0.1`, `::1` and `[::1]`, False for a name."""
    bare = host.strip("[]")
    if ":" in bare:
        return all(character in "0123456789abcdefABCDEF:.%" for character in bare.partition("%")[0])
    numbers = bare.split(".")
    return len(numbers) == 4 and all(part.isdecimal() and int(part) < 256 for part in numbers)


def _variable(service: str, variable: str, environment: dict[str, str]) -> str:
    value = environment.get(variable)
    if not value:
        raise ServiceVariableError(service, variable, "is not set", environment)
    return value


def _port(service: str, environment: dict[str, str]) -> int:
    variable = variable_names(service)[1]
    text = _variable(service, variable, environment)
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise ServiceVariableError(service, variable, f"is not a port number: {text!r}", environment)
    return int(text)
