"""The experiments there are: every stack with what its state records."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from symphony import paths
from symphony.backends import registry
from symphony.backends.observe import Observer, Recorded
from symphony.engine.state import file_store, store
from symphony.errors import SymphonyError, UserError
from symphony.operations.matching import match
from symphony.operations.orphans import orphans
from symphony.operations.switch import current
from symphony.plan.code import CodeSets, packed, unpacked

if TYPE_CHECKING:
    from symphony.engine.workspace import Workspace

_EXPERIMENT = "symphony:index:Experiment"
_REFERENCE = "pulumi:pulumi:StackReference"
CLUSTER = "symphony:index:GkeCluster"
_scope: ContextVar[str | None] = ContextVar("scope", default=None)


@dataclass(frozen=True)
class Stack:
    """One stack and what is recorded of its experiment.

    trouble: why its state cannot be read. is_switched_to: `symphony switch` chose it among several of the
    project, which a command tells.
    """

    name: file_store.StackName
    state: file_store.StackState | None
    backend: str | None
    recorded: Recorded | None
    trouble: str = ""
    is_switched_to: bool = False

    @property
    def shown(self) -> str:
        return self.name.stack

    @property
    def owner(self) -> str:
        return paths.owner_of(self.name.project, self.name.stack)

    @property
    def cluster(self) -> file_store.Resource | None:
        """The cluster that it is, where it is one."""
        resources = self.state.resources if self.state else ()
        return next((each for each in resources if each.type == CLUSTER), None)

    def observer(self) -> Observer:
        assert self.backend is not None
        return registry.get(self.backend).observer


@contextmanager
def only_on(backend: str) -> Generator[None]:
    """In the block there are no experiments but those of one backend."""
    token = _scope.set(backend)
    try:
        yield
    finally:
        _scope.reset(token)


def is_in_scope(backend: str | None) -> bool:
    """Whether what is on a backend is meant here; what is on none, or in a damaged state, may be."""
    return _scope.get() in (None, backend) or not backend


def every() -> list[Stack]:
    """All stacks of the store, in order; a state that cannot be read is a stack with trouble."""
    return [stack for stack in map(_read, store.names()) if is_in_scope(stack.backend)]


def orphan(given: str | None) -> Stack | None:
    """What lives under exactly this name and is in no store any more; only a deletion can mean that."""
    names = store.names()
    if given is None or any(given in _spellings(name) for name in names):
        return None
    for name, result in orphans(names).items():
        if given in _spellings(name):
            nothing: Mapping[str, Any] = {}
            owned, processes = result.owned, dict.fromkeys(result.owned.paths, nothing)
            recorded = Recorded(owned.owner, owned.launched_as, processes, paths.host())
            return Stack(name, None, result.backend, recorded)
    return None


def _spellings(name: file_store.StackName) -> tuple[str, ...]:
    return name.stack, f"{name.project}/{name.stack}", str(name)


def find_one(given: str | None) -> Stack:
    """Return the stack that a name stands for.

    A full name (`rl`, or `project/rl` where two projects have an `rl`) works from every folder. Inside a
    project, a part of a name and a missing name stand for experiments of that project alone. Outside of
    projects, a missing name stands for the current experiment, else the only one.

    Raises:
        UserError: No stack or several stacks match.
    """
    names = store.names()
    if given is None:
        return _default()
    exact = [name for name in names if given in _spellings(name)]
    if len(exact) == 1:
        # The common case does not read the project, which takes as long as all the rest.
        return _in_scope(_checked(_read(exact[0])))
    project = current_project()
    own = [name for name in exact or names if project is None or name.project == project]
    if exact and len(own) == 1:
        return _in_scope(_checked(_read(own[0])))
    known = {stack.name: stack for stack in map(_read, exact or own) if is_in_scope(stack.backend)}
    live = [name for name, stack in known.items() if stack.recorded is not None or stack.trouble]
    if exact and len(live) == 1:
        return _checked(known[live[0]])
    by_label = {label: name for name, label in labels(live).items()}
    return _checked(known[by_label[match(given, by_label, "experiment")]])


def current_project() -> str | None:
    """Return the name of the project of the working directory, or None outside of projects."""
    from symphony.engine import workspace

    place = workspace.find_usable()
    return place.project if place else None


def named(given: str) -> Stack | None:
    """The stack of exactly this name, where there is one."""
    result = [name for name in file_store.names() if given in _spellings(name)]
    return _read(result[0]) if len(result) == 1 else None


def labels(names: Iterable[file_store.StackName]) -> dict[file_store.StackName, str]:
    """How each stack is shown: its name, with its project where two projects have one of that name."""
    known = list(names)
    stacks = [name.stack for name in known]
    return {
        name: name.stack if stacks.count(name.stack) == 1 else f"{name.project}/{name.stack}"
        for name in known
    }


def ensure_same_location(
    stack: Stack, place: Workspace | None = None, config: Mapping[str, Any] | None = None
) -> Stack:
    """What runs on another machine, or in another cluster than answers now, can be listed here, nothing else.

    place: the project of an `up`, whose configuration says where it would go, and perhaps by which way.
    """
    if stack.recorded is None:
        return stack
    observer = stack.observer()
    connection = observer.connection_settings(config or {}, place.folder) if place is not None else None
    return replace(stack, recorded=observer.ensure_same_location(stack.recorded, stack.shown, connection))


def clusters_of(stack: Stack) -> list[str]:
    """The stacks whose cluster this one uses, as organization/project/stack."""
    resources = stack.state.resources if stack.state else ()
    return [str(each.inputs.get("name")) for each in resources if each.type == _REFERENCE]


def experiment_in(state: file_store.StackState | None) -> file_store.Resource | None:
    """The component of the experiment, where the state has one."""
    return next((each for each in (state.resources if state else ()) if each.type == _EXPERIMENT), None)


def addresses(stack: Stack) -> dict[str, str]:
    """service -> "host:port", as the state records them."""
    return dict(_outputs(stack).get("addresses") or {})


def exposed(stack: Stack) -> list[str]:
    """The services that are to be reached from outside, as the state records them."""
    return list(_outputs(stack).get("exposed") or ())


def code(stack: Stack) -> CodeSets:
    """The files that each digest of its processes' code stands for, as the state records them."""
    return unpacked(str(_outputs(stack).get("code") or ""))


def code_in_use(stack: Stack) -> str:
    """The same without what nothing has any more, packed."""
    state = stack.state
    if state is None or not (recorded := code(stack)):
        return ""
    inputs = "".join(str(each.inputs) for each in state.resources)
    return packed({digest: files for digest, files in recorded.items() if digest in inputs})


def folder(stack: Stack) -> str:
    """Where its program was run when it was started; empty when an older symphony has started it."""
    return str(_outputs(stack).get("folder") or "")


def is_here(stack: Stack) -> bool:
    """Whether what the stack records is on this machine, or on none in particular."""
    return stack.recorded is None or stack.recorded.host in ("", paths.host())


def read(name: file_store.StackName) -> Stack:
    """One stack; a stack that does not exist yet records nothing. SymphonyError: its state is damaged."""
    return _checked(_read(name))


def _default() -> Stack:
    """Return the stack that a command without a name means."""
    project = current_project()
    live = [stack for stack in every() if stack.recorded is not None]
    own = [stack for stack in live if project in (None, stack.name.project)]
    if len(own) == 1:
        return _checked(own[0])
    switched = [stack for stack in own if str(stack.name) == current()[0]]
    if switched:
        return replace(switched[0], is_switched_to=project is not None)
    listed = ", ".join(labels(stack.name for stack in own or live).values())
    if own:
        raise UserError(
            "there are several experiments", remedy=f"Name one of: {listed}; `symphony switch` remembers one"
        )
    if not live:
        raise UserError("there is no experiment", remedy="Start one with `symphony up NAME`")
    raise UserError(
        f"project {project} has no experiment",
        remedy=f"Start one with `symphony up`, or name one of another project: {listed}",
    )


def _outputs(stack: Stack) -> Mapping[str, Any]:
    experiment = experiment_in(stack.state)
    return experiment.outputs if experiment else {}


def _in_scope(stack: Stack) -> Stack:
    if is_in_scope(stack.backend):
        return stack
    raise UserError(
        f"{stack.shown} runs on {stack.backend}, and this is for {_scope.get()}",
        remedy="`symphony ls` shows all of them",
    )


def _checked(stack: Stack) -> Stack:
    if stack.trouble:
        raise SymphonyError(stack.trouble)
    return stack


def _read(name: file_store.StackName) -> Stack:
    try:
        state = store.read(name)
    except SymphonyError as error:
        return Stack(name, None, None, None, error.line)
    except KeyError:
        return Stack(name, None, None, None)
    experiment = experiment_in(state)
    value = experiment.outputs.get("backend") if experiment else None
    for backend in [str(value)] if value in registry.names() else []:
        recorded = registry.get(backend).observer.recorded(
            paths.owner_of(name.project, name.stack), state.resources
        )
        if recorded is not None:
            return Stack(name, state, backend, recorded)
    return Stack(name, state, None, None)
