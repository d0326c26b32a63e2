"""The inputs of a Session and a Window as typed values, and all faults in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from symphony import paths
from symphony.errors import SymphonyError, UserError
from symphony_tmux import names
from symphony_tmux.processes.launch.environment import RESERVED

SESSION_INPUTS = ("name", "owner", "server", "processes", "services", "grace")
# What goes into the outputs, too: of secret_env only its digests.
WINDOW_INPUTS = (
    "session",
    "server",
    "owner",
    "path",
    "argv",
    "script",
    "preamble",
    "cwd",
    "env",
    "secret_digests",
    "services",
    "inherit",
    "restart_policy",
    "grace",
)
POLICIES = ("Never", "OnFailure", "Always")
LISTS = ("argv", "script", "preamble", "inherit", "processes")
MAPPINGS = ("env", "secret_env", "secret_digests", "services")
NO_NAME = "use small letters, digits and inner hyphens, 63 at most"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: the input it is in and what is wrong, on one line."""

    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class SessionInputs:
    """One experiment as the program declares it."""

    name: str
    owner: str
    server: str
    processes: tuple[str, ...]
    services: dict[str, str]
    grace: float


@dataclass(frozen=True, slots=True)
class WindowInputs:
    """One process as the program declares it."""

    session: str
    server: str
    owner: str
    path: str
    argv: tuple[str, ...]
    script: tuple[str, ...]
    preamble: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    secret_env: dict[str, str]
    services: dict[str, str]
    inherit: tuple[str, ...]
    restart_policy: str
    grace: float


def session_inputs(props: Mapping[str, Any]) -> SessionInputs:
    """Raises the first fault: names become parts of commands and paths, so nothing is done with bad ones."""
    _refuse(session_problems(props), str(props.get("name", "")))
    return SessionInputs(
        name=props["name"],
        owner=props["owner"],
        server=_server(props),
        processes=_list(props, "processes"),
        services=_mapping(props, "services"),
        grace=float(props.get("grace", 5)),
    )


def window_inputs(props: Mapping[str, Any]) -> WindowInputs:
    """Raises the first fault, as session_inputs does."""
    _refuse(window_problems(props), str(props.get("path", "")))
    return WindowInputs(
        session=props["session"],
        server=_server(props),
        owner=props["owner"],
        path=props["path"],
        argv=_list(props, "argv"),
        script=_list(props, "script"),
        preamble=_list(props, "preamble"),
        cwd=props.get("cwd") or "",
        env=_mapping(props, "env"),
        secret_env=_mapping(props, "secret_env"),
        services=_mapping(props, "services"),
        inherit=_list(props, "inherit"),
        restart_policy=props.get("restart_policy") or POLICIES[0],
        grace=float(props.get("grace", 5)),
    )


def refuse_strange_names(props: Mapping[str, Any]) -> None:
    """SymphonyError: the state has a name that no input can have; it would become a part of paths, too."""
    fits = {"name": names.is_name, "session": names.is_name, "server": names.is_name}
    fits |= {"path": names.is_path, "owner": names.is_owner}
    for field in fits.keys() & props.keys():
        value: object = props[field]
        if not isinstance(value, str) or not fits[field](value):
            raise SymphonyError(
                f"the state was damaged or changed by hand: its {field} is {value!r}",
                remedy="Restore the state from the copy beside it (.bak)",
            )


def session_problems(props: Mapping[str, Any]) -> list[Problem]:
    result = [*_shapes(props), *_words(props, "name", names.is_name), *_common(props)]
    if result:
        return result
    result += [
        Problem("processes", f"{path!r} is not a process: {NO_NAME}")
        for path in props.get("processes") or ()
        if not names.is_path(path)
    ]
    return [*result, *_texts(props), *_variables(props)]


def window_problems(props: Mapping[str, Any]) -> list[Problem]:
    result = [
        *_shapes(props),
        *_words(props, "session", names.is_name),
        *_words(props, "path", names.is_path),
    ]
    result += _common(props)
    if result:
        return result
    if bool(props.get("argv")) == bool(props.get("script")):
        result.append(Problem("argv", "give either argv or script, and not an empty one"))
    result += _texts(props)
    cwd = props.get("cwd") or ""
    if cwd and not cwd.startswith("/"):
        result.append(Problem("cwd", f"{cwd!r} is not an absolute path"))
    policy: object = props.get("restart_policy") or POLICIES[0]
    if policy not in POLICIES:
        result.append(Problem("restart_policy", f"{policy!r} is not one of {', '.join(POLICIES)}"))
    return [*result, *_variables(props)]


def _shapes(props: Mapping[str, Any]) -> list[Problem]:
    result = [
        Problem(name, "must be a list of strings") for name in LISTS if not _is_texts(props.get(name) or [])
    ]
    for name in MAPPINGS:
        value: object = props.get(name) or {}
        entries = cast("Mapping[object, object]", value)
        if not isinstance(value, Mapping) or not _is_texts([*entries, *entries.values()]):
            result.append(Problem(name, "must map strings to strings"))
    return result


def _common(props: Mapping[str, Any]) -> list[Problem]:
    result = _words({**props, "server": _server(props)}, "server", names.is_name)
    owner: object = props.get("owner")
    if not isinstance(owner, str) or not names.is_owner(owner):
        result.append(Problem("owner", f"{owner!r} is not <project>/<stack>#<store>"))
    grace: object = props.get("grace", 5)
    if isinstance(grace, bool) or not isinstance(grace, int | float) or not 0 <= grace <= 3600:
        result.append(Problem("grace", f"{grace!r} is not a number of seconds between 0 and 3600"))
    return result


def _words(props: Mapping[str, Any], name: str, fits: Callable[[str], bool]) -> list[Problem]:
    value: object = props.get(name)
    return (
        []
        if isinstance(value, str) and fits(value)
        else [Problem(name, f"{value!r} is not a name: {NO_NAME}")]
    )


def _texts(props: Mapping[str, Any]) -> list[Problem]:
    texts: dict[str, list[str]] = {name: [*_list(props, name)] for name in LISTS}
    texts["cwd"] = [props.get("cwd") or ""]
    texts |= {name: [*_mapping(props, name).values()] for name in MAPPINGS}
    return [
        Problem(name, "contains a NUL byte")
        for name, values in texts.items()
        if any("\0" in each for each in values)
    ]


def _variables(props: Mapping[str, Any]) -> list[Problem]:
    result: list[Problem] = []
    for field in MAPPINGS:
        for name in _mapping(props, field):
            if not names.is_variable(name):
                result.append(Problem(field, f"{name!r} is not the name of a variable"))
            elif name in RESERVED:
                result.append(Problem(field, f"{name} cannot be declared: {RESERVED[name]}"))
    return result


def _list(props: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(cast("Sequence[str]", props.get(name) or ()))


def _mapping(props: Mapping[str, Any], name: str) -> dict[str, str]:
    return dict(cast("Mapping[str, str]", props.get(name) or {}))


def _is_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)  # pyright: ignore[reportUnknownVariableType]


def _server(props: Mapping[str, Any]) -> str:
    return props.get("server") or paths.DEFAULT_SERVER


def _refuse(problems: list[Problem], where: str) -> None:
    if problems:
        raise UserError(f"{problems[0].field}: {problems[0].reason}", where=where)
