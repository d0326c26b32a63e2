"""Finds experiments in the state store: every stack with the record of its processes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from symphony import files, paths
from symphony.backends import registry
from symphony.backends.following import NOT_CREATED
from symphony.backends.observe import (
    PROCESS_TYPE,
    AddressObserver,
    LocalObserver,
    Observer,
    ProcessStatus,
    Recorded,
    RemoteObserver,
)
from symphony.engine import workspace as workspaces
from symphony.engine.run import checkpoints
from symphony.engine.state import file_store, locks, store
from symphony.engine.state.file_store import Resource, StackName
from symphony.engine.workspace import Workspace
from symphony.errors import SymphonyError, UserError
from symphony.plan.changes import rendezvous_of
from symphony.plan.names import DECLARED, is_same, listed, near, quoted

if TYPE_CHECKING:
    from symphony.engine.run.events import Step

# The types of the components of experiments and clusters.
PROCESS, GROUP = PROCESS_TYPE, "symphony:index:ProcessGroup"
CLUSTER = "symphony:index:GkeCluster"
_EXPERIMENT = "symphony:index:Experiment"
_REFERENCE = "pulumi:pulumi:StackReference"
_backend: ContextVar[str | None] = ContextVar("backend", default=None)


class Stack(msgspec.Struct, frozen=True):
    """A stack and the record of its experiment.

    Attributes:
        backend: Where its processes run; None if nothing is recorded.
        recorded: The processes that its state records; None if it started none.
        trouble: The reason why its state cannot be read.
        is_current: It is the current one of several experiments of a project, and no command named it.
    """

    name: StackName
    state: file_store.StackState | None
    backend: str | None
    recorded: Recorded | None
    trouble: str = ""
    is_current: bool = False

    @property
    def display_name(self) -> str:
        return self.name.stack

    @property
    def owner(self) -> str:
        return paths.owner_of(self.name.project, self.name.stack)

    @property
    def resources(self) -> Sequence[file_store.Resource]:
        """The resources in its state."""
        return self.state.resources if self.state else ()

    @property
    def cluster(self) -> file_store.Resource | None:
        """The cluster that the stack creates, if any."""
        return next((resource for resource in self.resources if resource.type == CLUSTER), None)

    @property
    def experiment(self) -> file_store.Resource | None:
        """The component of its experiment, if it has one."""
        return next((resource for resource in self.resources if resource.type == _EXPERIMENT), None)

    @property
    def declared(self) -> Mapping[str, Any]:
        """The declaration of its experiment; an older symphony left a part of it in the outputs."""
        experiment = self.experiment
        return (experiment.inputs.get(DECLARED) or experiment.outputs) if experiment else {}

    @property
    def is_of_script(self) -> bool:
        """Return whether a script launched its experiment."""
        return bool(self.declared.get("script"))

    @property
    def declared_processes(self) -> dict[str, Mapping[str, Any]]:
        """The declarations of its processes, by path."""
        components = (resource for resource in self.resources if resource.type == PROCESS)
        return {component.name: component.inputs.get(DECLARED, {}) for component in components}

    def equal_workers(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the other equal workers of some processes, each with one of these in the same rendezvous."""
        meets = {path: rendezvous_of(inputs) for path, inputs in self.declared_processes.items()}
        leaders = {meets[path]: path for path in paths if meets.get(path) is not None}
        others = {path: leaders[service] for path, service in meets.items() if service in leaders}
        return {path: leader for path, leader in others.items() if path not in paths}

    def urns_of(self, paths: Iterable[str]) -> list[str]:
        """Return the resources of some processes, with those of the pods of their groups."""
        owners = {*paths, *(path.rpartition("/")[0] for path in paths)} - {""}
        return [resource.urn for resource in self.resources if path_of(resource) in owners]

    @property
    def processes(self) -> Mapping[str, Mapping[str, Any]]:
        """The inputs and outputs of its recorded processes, by path."""
        return self.recorded.processes if self.recorded else {}

    def on(self) -> registry.Backend:
        """Return the backend where its processes run."""
        assert self.backend is not None
        return registry.get(self.backend)

    def observer(self) -> Observer:
        return self.on().observer

    def statuses(self) -> Sequence[ProcessStatus] | SymphonyError:
        """Return the statuses of its processes, or the reason why its backend does not answer."""
        return statuses([self])[self.name]

    def not_up(self) -> UserError:
        """Return the error of a command that needs processes."""
        return UserError(
            f"{self.display_name} is not up", remedy=f"Start it with `symphony up {self.display_name}`"
        )


class Current:
    """A stack that is read again when its state has changed."""

    def __init__(self, stack: Stack) -> None:
        self._stack, self._version = stack, store.version(stack.name)

    def read(self) -> Stack:
        """Return the stack as it is now.

        Raises:
            SymphonyError: Its state is damaged.
        """
        if (version := store.version(self._stack.name)) != self._version:
            self._stack, self._version = read(self._stack.name), version
        return self._stack


@contextmanager
def only_on(backend: str) -> Generator[None]:
    """Hide experiments of other backends in the block."""
    token = _backend.set(backend)
    try:
        yield
    finally:
        _backend.reset(token)


def statuses(known: Sequence[Stack]) -> dict[StackName, Sequence[ProcessStatus] | SymphonyError]:
    """Return the statuses of experiments, or why their backends do not answer; ask each backend once."""
    by_backend = defaultdict[str, list[tuple[Stack, Recorded]]](list)
    for stack in known:
        if stack.backend is not None and stack.recorded is not None:
            by_backend[stack.backend].append((stack, stack.recorded))
    result: dict[StackName, Sequence[ProcessStatus] | SymphonyError] = {}
    for backend, members in by_backend.items():
        answers = registry.get(backend).observer.statuses([recorded for _, recorded in members])
        for (stack, recorded), answer in zip(members, answers, strict=True):
            if recorded.not_created and not isinstance(answer, SymphonyError):
                answer = [*answer, *_not_created(stack.name, recorded, answer)]
            result[stack.name] = answer
    return result


def _not_created(
    name: StackName, recorded: Recorded, known: Sequence[ProcessStatus]
) -> Iterator[ProcessStatus]:
    """Yield the statuses of processes that an interrupted run did not create; not while a run lasts."""
    missing = recorded.not_created.keys() - {status.path for status in known}
    if missing and not locks.is_held(name):
        for path in recorded.not_created:
            if path in missing:
                yield ProcessStatus(path, "lost", ready=False, why=NOT_CREATED)


def is_in_scope(backend: str | None) -> bool:
    """Return whether a backend is visible here; a stack without one always is."""
    return _backend.get() in (None, backend) or not backend


def every() -> list[Stack]:
    """Return all stacks of the store, in order; a damaged state is a stack with trouble."""
    return [stack for stack in map(_read, store.names()) if is_in_scope(stack.backend)]


def read(name: StackName) -> Stack:
    """Return a stack, which records nothing if it does not exist; raise SymphonyError for a damaged state."""
    return _require_intact(_read(name))


def find(word: str | None) -> Stack:
    """Return the stack that a name refers to.

    A full name (`rl`, or `project/rl` where two projects have an `rl`) works from every folder. Inside a
    project, a part of a name and a missing name stand for experiments of that project alone. A missing name
    stands for the only one, else for the current one.

    Raises:
        UserError: No stack or several stacks match.
    """
    if word is None:
        return _find_unnamed()
    names = store.names()
    exact = [name for name in names if word in name.spellings]
    if len(exact) == 1:
        # The common case does not read the project, which takes as long as all the rest.
        return _require_visible(_read(exact[0]))
    project = current_project()
    own = [name for name in exact or names if project in (None, name.project)]
    if exact and len(own) == 1:
        return _require_visible(_read(own[0]))
    known = {stack.name: stack for stack in map(_read, exact or own) if is_in_scope(stack.backend)}
    live = [name for name, stack in known.items() if stack.recorded is not None or stack.trouble]
    by_label = {label: name for name, label in labels(live).items()}
    return _require_intact(known[by_label[match(word, by_label, "experiment")]])


def find_exact(word: str) -> Stack | None:
    """Return the stack of this full name; None if there is none, or several and none in this project."""
    exact = [name for name in store.names() if word in name.spellings]
    if len(exact) > 1:
        exact = [name for name in exact if name.project == current_project()]
    return _read(exact[0]) if len(exact) == 1 else None


def match_names(words: Sequence[str], known: Iterable[StackName]) -> list[StackName]:
    """Return the names that full names, shell patterns and /regular expressions/ stand for, each once.

    Inside a project, a pattern stands for experiments of that project, unless it names the project as well:
    `other/sweep-*`.

    Raises:
        UserError: A word matches nothing, is a name in several projects, or is not a regular expression.
    """
    project, label_of = current_project(), labels(known)
    matched: dict[StackName, None] = {}
    for word in words:
        names = [name for name in label_of if word == label_of[name] or _matches(name, word, project)]
        if not names:
            remedy = f"Known: {listed(sorted(label_of.values())) or 'none'}"
            raise UserError(f"no experiment is named {quoted(word)}", remedy=remedy)
        if len(names) > 1 and all(word == name.stack for name in names):
            what = f"{quoted(word)} could be {listed([label_of[name] for name in names])}"
            raise UserError(what, remedy="Write the full name of the experiment")
        matched.update(dict.fromkeys(names))
    return list(matched)


def _matches(name: StackName, word: str, project: str | None) -> bool:
    if len(word) > 2 and word[0] == word[-1] == "/":
        try:
            return project in (None, name.project) and re.search(word[1:-1], name.stack) is not None
        except re.error as error:
            what = f"the pattern of experiment names {quoted(word)} is not a regular expression: {error}"
            raise UserError(what) from None
    if "/" in word:
        return fnmatchcase(f"{name.project}/{name.stack}", word)
    return project in (None, name.project) and fnmatchcase(name.stack, word)


def find_orphan(word: str | None) -> Stack | None:
    """Return the orphan of exactly this name."""
    names = store.names()
    if word is None or any(word in name.spellings for name in names):
        return None
    return next((stack for stack in orphans(names) if word in stack.name.spellings), None)


def orphan_of(name: StackName) -> Stack | None:
    """Return the processes of an experiment that no state records; None if there are none."""
    return next((stack for stack in orphans(()) if stack.name == name), None)


def orphans(recorded: Iterable[StackName]) -> list[Stack]:
    """Return experiments that run here and are not in the state, because their first `up` was killed.

    Every process of symphony has a marker with its store, project and stack.
    """
    known = {(name.project, name.stack) for name in recorded}
    found: list[Stack] = []
    for backend in map(registry.get, registry.BUILT_IN):
        # Loading a remote backend takes longer than this look: Kubernetes' client alone 0.3 s.
        observer = backend.observer if backend.local else None
        for owned in observer.list_owned() if isinstance(observer, LocalObserver) else ():
            full_name, _, identity = owned.owner.partition("#")
            project, _, stack = full_name.partition("/")
            if (
                identity == paths.store_identity()
                and (project, stack) not in known
                and is_in_scope(backend.name)
            ):
                logs = owned.logs
                processes = {path: {"log": logs[path]} if path in logs else {} for path in owned.paths}
                record = Recorded(owned.owner, owned.physical_name, processes, paths.host())
                found.append(Stack(StackName(project, stack), None, backend.name, record))
    return found


def match(word: str, names: Iterable[str], kind: str) -> str:
    """Return the single name that a word refers to.

    The word is the name itself in any spelling that Kubernetes maps to it, the name of a process without its
    group, or a part of just one name. Messages call the candidates by `kind`, such as "process".

    Raises:
        UserError: No name or several names match.
    """
    known = sorted(names)
    has_group = "/" in word
    candidates = (
        [name for name in known if name == word]
        or [name for name in known if is_same(name, word)]
        or [name for name in known if not has_group and is_same(name.rpartition("/")[2], word)]
        or [name for name in known if word and word in name]
    )
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise UserError(
            f"{quoted(word)} could be {listed(candidates)}", remedy=f"Write the full name of the {kind}"
        )
    similar = " or ".join(map(quoted, near(word, known)))
    remedy = f"Did you mean {similar}?" if similar else f"Known: {listed(known) or 'none'}"
    raise UserError(f"there is no {kind} {quoted(word)}", remedy=remedy)


def match_processes(words: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Return the processes that names, groups and shell patterns stand for, in the order of `paths`.

    Without words, return all processes.

    Raises:
        UserError: A word matches no process, or a name matches several.
    """
    if not words:
        return list(paths)
    groups = {path.rpartition("/")[0] for path in paths} - {""}
    matched: set[str] = set()
    for word in words:
        if any(sign in word for sign in "*?["):
            # `agents/*` stands for paths, `worker-*` for names in any group.
            matching = [p for p in paths if fnmatchcase(p, word) or fnmatchcase(p.rpartition("/")[2], word)]
            if not matching:
                raise UserError(f"no process matches {quoted(word)}", remedy=f"Known: {listed(paths)}")
            matched.update(matching)
        elif word not in paths and (group := next((g for g in groups if is_same(g, word.rstrip("/"))), "")):
            matched.update(path for path in paths if path.startswith(f"{group}/"))
        else:
            matched.add(match(word, paths, "process"))
    return [path for path in paths if path in matched]


def current_project() -> str | None:
    """Return the name of the project of the working directory, or None outside of projects."""
    project = workspaces.find_usable()
    return project.project if project else None


def labels(names: Iterable[StackName]) -> dict[StackName, str]:
    """Return the name to show for each stack, with its project where two projects have that name."""
    known = list(names)
    stacks = [name.stack for name in known]
    return {
        name: name.stack if stacks.count(name.stack) == 1 else f"{name.project}/{name.stack}"
        for name in known
    }


def current() -> str:
    """Return the full name of the current experiment, which may no longer exist; empty if unset."""
    with suppress(OSError, UnicodeDecodeError):
        return files.read(_current_file()).decode().strip()
    return ""


def set_current(name: StackName) -> None:
    """Make an experiment the current one: commands without a name use it, but not in other projects."""
    files.fresh_folder(_current_file().parent)
    files.replace(_current_file(), str(name).encode())


def forget_current(name: StackName) -> None:
    """Unset the current experiment if it is this one."""
    if current() == str(name):
        _current_file().unlink(missing_ok=True)


def _current_file() -> Path:
    return paths.home() / "current" / paths.store_id()


def ensure_same_location(
    stack: Stack, workspace: Workspace | None = None, config: Mapping[str, Any] | None = None
) -> Stack:
    """Return the stack with the connection to its processes.

    An `up` passes its project and its configuration, which say where it would start processes.

    Raises:
        UserError: It runs on another machine, or in another cluster than the configured one.
    """
    if stack.recorded is None:
        return stack
    observer, connection = stack.observer(), None
    if workspace is not None and isinstance(observer, RemoteObserver):
        connection = observer.connection_settings(config or {}, workspace.folder)
    recorded = observer.ensure_same_location(stack.recorded, stack.display_name, connection)
    return replace(stack, recorded=recorded)


def running(stack: Stack) -> tuple[Stack, Recorded]:
    """Return an experiment, connected to its processes, and its record; refuse one that is not up here."""
    if stack.recorded is None:
        raise stack.not_up()
    stack = ensure_same_location(stack)
    assert stack.recorded is not None
    return stack, stack.recorded


def is_here(stack: Stack) -> bool:
    """Return whether the recorded processes are on this machine, or on none in particular."""
    return stack.recorded is None or stack.recorded.host in ("", paths.host())


def clusters_of(stack: Stack) -> list[str]:
    """Return the stacks whose cluster this one uses, as organization/project/stack."""
    references = (resource for resource in stack.resources if resource.type == _REFERENCE)
    return [str(reference.inputs.get("name")) for reference in references]


def path_of(resource: Step | Resource) -> str:
    """Return the path of the process or group whose component is the parent of a resource of symphony."""
    # The component of a process is itself a child of that of its group; users pass it as the parent of
    # their own resources and providers.
    is_foreign = not checkpoints.is_ours(resource.type, resource.inputs)
    if is_foreign or resource.type.startswith(("symphony:", "pulumi:")):
        return ""
    return component_path(resource.parent)


def component_path(urn: str) -> str:
    """Return the path of the process or group whose component has this urn; empty for other urns."""
    for component_type in (PROCESS, GROUP):
        _, separator, path = urn.rpartition(f"{component_type}::")
        if separator:
            return path
    return ""


def services(stack: Stack) -> Sequence[Mapping[str, Any]]:
    """Return the services: name, host, port, path, exposed; the port is 0 while it is not chosen yet."""
    services: Sequence[Mapping[str, Any]] = stack.declared.get("services") or ()
    observer = stack.observer() if services and stack.recorded is not None else None
    if stack.recorded is None or not isinstance(observer, AddressObserver):
        return services
    known = observer.addresses(stack.recorded)
    return [{**service, **known.get(service["name"], {})} for service in services]


def addresses(stack: Stack) -> dict[str, str]:
    """Return service -> "host:port"."""
    return {service["name"]: f"{service['host']}:{int(service['port'])}" for service in services(stack)}


def folder(stack: Stack) -> str:
    """Return the folder from which its program was last run; empty if the state does not record it."""
    return str(stack.declared.get("folder") or "")


def _find_unnamed() -> Stack:
    project = current_project()
    live = [stack for stack in every() if stack.recorded is not None]
    own = [stack for stack in live if project in (None, stack.name.project)]
    if len(own) == 1:
        return own[0]
    for stack in own:
        if str(stack.name) == current():
            return replace(stack, is_current=project is not None)
    names = listed([*labels(stack.name for stack in own or live).values()])
    if own:
        raise UserError(
            "several experiments exist", remedy=f"Name one of: {names}; `symphony switch` remembers one"
        )
    if not live:
        raise UserError("no experiment is up", remedy="Start one with `symphony up NAME`")
    raise UserError(
        f"project {project} has no experiment",
        remedy=f"Start one with `symphony up`, or name one of another project: {names}",
    )


def _require_visible(stack: Stack) -> Stack:
    if is_in_scope(stack.backend):
        return _require_intact(stack)
    raise UserError(
        f"{stack.display_name} runs on {stack.backend}, and this program works on {_backend.get()}",
        remedy="`symphony ls` shows all experiments",
    )


def _require_intact(stack: Stack) -> Stack:
    if stack.trouble:
        raise SymphonyError(stack.trouble)
    return stack


def _read(name: StackName) -> Stack:
    try:
        state = store.read_state(name)
    except SymphonyError as error:
        return Stack(name, None, None, None, error.line)
    except KeyError:
        return Stack(name, None, None, None)
    stack = Stack(name, state, None, None)
    backend = str(stack.declared.get("backend") or "")
    if backend and registry.exists(backend):
        recorded = registry.get(backend).observer.recorded(stack.owner, state.resources)
        if recorded is not None:
            return replace(stack, backend=backend, recorded=recorded)
    return stack
