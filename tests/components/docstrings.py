"""The docstrings of the public API: which parameters they leave out, and their examples as one program."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import symphony
import symphony.tmux
from symphony.classic.cluster import ClusterOptions, KubeOptions, TmuxOptions
from symphony.operations import tmux_session
from symphony.operations.plan import Planned
from symphony.operations.up import Ended
from symphony.spec.experiment import ExperimentOptions, GroupOptions
from symphony.spec.process import ProcessOptions

# Names that only symphony's own packages call.
_INTERNAL = re.compile(r"_.*|action_.*|components|from_spec|join|register")
_OTHERS: tuple[Any, ...] = (Ended, Planned, tmux_session.Session, symphony.tmux.session)
# The keywords of their `**options`.
_OPTIONS: dict[Any, Any] = {
    symphony.Cluster: ClusterOptions,
    symphony.Experiment: ExperimentOptions,
    symphony.KubeCluster: KubeOptions,
    symphony.Process: ProcessOptions,
    symphony.ProcessGroup: GroupOptions,
    symphony.TmuxCluster: TmuxOptions,
}
_VARIABLE = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
# Names that the examples use without declaring them.
_HEADER = f"""
import argparse, os, subprocess
from typing import Any
import symphony.tmux
from symphony import {", ".join(vars(symphony)["__all__"])}
from symphony.operations.plan import Planned
from symphony.operations.tmux_session import Session

class MyParser(SymphonyParser): ...

def examples(
    book: AddressBook, builder: DockerBuilder, cluster: TmuxCluster, dispatcher: GKEDispatcher,
    experiment: Experiment, first: Experiment, second: Experiment, process: Process, worker: Process,
    learner: Process, agent: Process, processgroup: ProcessGroup, group: ProcessGroup,
    train: Process, prepare: Process,
    parser: argparse.ArgumentParser,
    planned: Planned, session: Session, self: SymphonyParser, settings: dict[str, Any], text: str,
) -> None:
"""


def public_api() -> Iterator[tuple[type[Any] | None, Callable[..., Any]]]:
    """Yield every public class, function and method; a method with its class."""
    every: list[Any] = [getattr(symphony, name) for name in vars(symphony)["__all__"]]
    for thing in [*every, *_OTHERS]:
        yield None, thing
        for name, each in inspect.getmembers(thing, inspect.isroutine) if inspect.isclass(thing) else ():
            if not _INTERNAL.fullmatch(name) and str(getattr(each, "__module__", "")).startswith("symphony."):
                yield thing, each


def parameters(thing: Callable[..., Any]) -> list[str]:
    """Return the parameters that a docstring must explain; for a class also the keywords of its options."""
    if thing is tmux_session.Session:
        return []
    every = inspect.signature(thing).parameters.values()
    names = [each.name for each in every if each.kind not in _VARIABLE and each.name not in ("self", "where")]
    return [*names, *(_OPTIONS[thing].__annotations__ if thing in _OPTIONS else ())]


def unexplained(thing: Callable[..., Any]) -> list[str]:
    """Return the parameters that its docstring does not name."""
    doc = inspect.getdoc(thing) or ""
    return [each for each in parameters(thing) if not re.search(rf"\b{each}\b", doc)]


def needs_example(thing: Callable[..., Any]) -> bool:
    return inspect.isclass(thing) or bool(parameters(thing))


def example(thing: Callable[..., Any]) -> str | None:
    """Return the section Example, else of a class the first paragraph that is a program, else a call."""
    doc = inspect.getdoc(thing) or ""
    if section := re.search(r"^Example:\n((?:    .*\n?|\n)+)", doc, re.MULTILINE):
        return textwrap.dedent(section[1]).strip()
    if inspect.isclass(thing):
        paragraphs = [part for part in doc.split("\n\n") if "(" in part and _is_program(part)]
        return paragraphs[0] if paragraphs else None
    for match in re.finditer(rf"[\w.()]*\b{thing.__name__}\(", doc):
        ends = (each.end() for each in re.finditer(r"\)", doc) if each.end() > match.end() - 1)
        for end in ends:
            if _is_program(code := doc[match.start() : end]):
                return code
    return None


def examples() -> Iterator[str]:
    """Yield every example once; a call of a method is that of an object."""
    seen: set[str] = set()
    for owner, thing in public_api():
        code = example(thing)
        # The example of SymphonyParser declares a class without annotations.
        if code is None or not needs_example(thing) or thing is symphony.SymphonyParser:
            continue
        receiver = f"{owner.__name__.lower()}." if owner and code.startswith(f"{thing.__name__}(") else ""
        if receiver + code not in seen:
            seen.add(receiver + code)
            yield receiver + code


def program() -> str:
    """Return all examples as one program, for a type checker."""
    return "\n".join([_HEADER, *(textwrap.indent(code, "    ") for code in examples())])


def _is_program(code: str) -> bool:
    try:
        return any(isinstance(each, ast.Call) for each in ast.walk(ast.parse(code)))
    except SyntaxError:
        return False
