"""The graph of an experiment: processes, services, dependencies; drawn as Mermaid, by Graphviz or as SVG."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from symphony.backends.observe import ProcessStatus
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.process import BAD, is_well
from symphony.operations.process import processes as statuses_of
from symphony.plan.names import RENDEZVOUS, sort_key

if TYPE_CHECKING:
    from symphony.operations.plan import Planned


_NUMBERED = re.compile(r"(.*?)(\d*)")

Health = Literal["planned", "well", "done", "waiting", "bad"]


class Node(msgspec.Struct, frozen=True):
    """A process, or several processes whose names differ only in numbers, such as equal workers.

    Attributes:
        name: Its name in its group: `learner`, `agent-0..3`.
        group: Its process group, or several such as `pool-0..1`; empty without one.
        paths: Its processes.
        state: Their state in words; empty in a plan.
    """

    name: str
    group: str
    paths: tuple[str, ...]
    state: str = ""
    health: Health = "planned"

    @property
    def path(self) -> str:
        return f"{self.group}/{self.name}" if self.group else self.name


class Service(msgspec.Struct, frozen=True):
    """A service, with the indices of the node that binds it and the nodes that connect to it."""

    name: str
    port: int
    binds: int
    connects: tuple[int, ...]
    exposed: bool = False

    @property
    def label(self) -> str:
        # A Slurm job chooses its ports when it starts; until then the port is 0.
        return f"{self.name}:{self.port}" if self.port else self.name


class Dependency(msgspec.Struct, frozen=True):
    """A dependency: the node with the index `waits` waits for the node with the index `on`."""

    waits: int
    on: int
    condition: str


class Graph(msgspec.Struct, frozen=True):
    """An experiment as nodes, services and dependencies."""

    name: str
    backend: str
    nodes: tuple[Node, ...]
    services: tuple[Service, ...]
    dependencies: tuple[Dependency, ...]

    @property
    def groups(self) -> dict[str, list[int]]:
        """The indices of the nodes of each group; "" is the key of the nodes without a group."""
        members: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            members.setdefault(node.group, []).append(number)
        return members


NOTHING = Graph("", "", (), (), ())


def of_stack(stack: stacks.Stack) -> Graph:
    """Return the graph of an experiment that is up, with the states of its processes."""
    statuses = {status.path: status for status in statuses_of(stack)}
    return build(
        stack.display_name, stack.backend or "", declared_processes(stack), stacks.services(stack), statuses
    )


def declared_processes(stack: stacks.Stack) -> list[Mapping[str, Any]]:
    """Return the declarations of the processes, in natural order."""
    return sorted(stack.declared_processes.values(), key=lambda process: sort_key(process["path"]))


def of_plan(planned: Planned) -> Graph:
    """Return the graph of a plan."""
    return build(planned.stack, planned.backend, planned.plan["processes"], planned.plan["services"])


def build(
    name: str,
    backend: str,
    processes: Iterable[Mapping[str, Any]],
    services: Iterable[Mapping[str, Any]],
    statuses: Mapping[str, ProcessStatus] | None = None,
) -> Graph:
    """Return the graph for the processes and services of a plan."""
    folded: defaultdict[tuple[object, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for process in sorted(processes, key=lambda process: sort_key(process["path"])):
        folded[_fold_key(process)].append(process)
    nodes = tuple(_node(members, statuses) for members in folded.values())
    number = {path: index for index, node in enumerate(nodes) for path in node.paths}
    clients: defaultdict[str, set[int]] = defaultdict(set)
    dependencies: dict[Dependency, None] = {}
    for members in folded.values():
        for process in members:
            for service in process.get("connects") or ():
                clients[service].add(number[process["path"]])
            for wait in process.get("waits_for") or ():
                if wait["path"] in number:
                    waits, on = number[process["path"]], number[wait["path"]]
                    dependencies[Dependency(waits, on, wait["condition"])] = None
    return Graph(
        name,
        backend,
        nodes,
        tuple(
            Service(
                service["name"],
                int(service["port"]),
                number[service["path"]],
                tuple(sorted(clients[service["name"]])),
                bool(service["exposed"]),
            )
            for service in services
            if service["path"] in number
        ),
        tuple(dependencies),
    )


def _fold_key(process: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a key for processes that differ only in the numbers at the ends of their names.

    Equal workers have the same key, although only the first of them binds their rendezvous service.
    """
    waits = {(_stem(wait["path"]), wait["condition"]) for wait in process.get("waits_for") or ()}
    used = (frozenset(map(_stem, process.get(verb) or ())) for verb in ("binds", "connects", "exposes"))
    group, _, name = process["path"].rpartition("/")
    variables: Mapping[str, str] = process.get("service_env") or {}
    if RENDEZVOUS in variables:
        return group, variables[RENDEZVOUS]
    return _stem(group), _stem(name), *used, frozenset(waits)


def _stem(name: str) -> tuple[str, bool]:
    match = _NUMBERED.fullmatch(name)
    assert match is not None, "the pattern matches every name"
    return match[1], bool(match[2])


def _node(members: Sequence[Mapping[str, Any]], statuses: Mapping[str, ProcessStatus] | None) -> Node:
    paths = tuple(process["path"] for process in members)
    parts = [path.rpartition("/") for path in paths]
    name = folded_name([name for _, _, name in parts])
    group = folded_name([group for group, _, _ in parts])
    if statuses is None:
        return Node(name, group, paths)
    known = [statuses[path] for path in paths if path in statuses]
    states = list(dict.fromkeys(status.state for status in known)) or ["not created"]
    ready = sum(map(is_well, known))
    state = f"{ready} of {len(paths)} ready"
    if len(states) == 1 and ready in (0, len(paths)):
        state = "not ready" if states == ["running"] and not ready else states[0]
    health: Health = "waiting"
    if {*BAD, "not created"} & {*states}:
        health = "bad"
    elif ready == len(paths):
        health = "done" if states == ["completed"] else "well"
    return Node(name, group, paths, state, health)


def folded_name(names: Sequence[str]) -> str:
    """Return one name for names that differ in the number at their end: agent-0..3, or agent-* with gaps."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) == 1:
        return distinct[0]
    numbers = [name[len(_stem(name)[0]) :] for name in distinct]
    whole = sorted(map(int, numbers))
    prefix = _stem(distinct[0])[0]
    counts_up = whole[-1] - whole[0] == len(whole) - 1
    return f"{prefix}{min(numbers, key=int)}..{max(numbers, key=int)}" if counts_up else f"{prefix}*"


# The fill and the line of a process.
_COLOURS: dict[Health, tuple[str, str]] = {
    "planned": ("#eef2f7", "#5b6b7f"),
    "well": ("#dff3e3", "#2e8b57"),
    "done": ("#e8e8e8", "#777777"),
    "waiting": ("#fdf1d3", "#b8860b"),
    "bad": ("#fbdcdc", "#c0392b"),
}
# The lines of services, in turn.
_LINES = ("#2f6fb0", "#8e5fb5", "#c26a1b", "#2b8a86", "#a8415f", "#6b7d1e")
_DEPENDENCY_COLOUR, _LINK_COLOUR = "#888888", "#9aa5b1"
_LETTER, _SMALL = 8.0, 7.0
_ROW, _BOX, _TITLE, _GAP, _PITCH, _EDGE = 44, 34, 22, 14, 30, 16
_DEADLINE = 60
# resvg draws no text in a font that is missing, and knows no default for sans-serif.
_FONTS = "Helvetica, Arial, DejaVu Sans, Liberation Sans, Noto Sans, Ubuntu"


def mermaid(graph: Graph) -> str:
    """Return the graph as a Mermaid flowchart."""
    lines = ["flowchart LR"]
    for group, members in graph.groups.items():
        indent = "  " if group else ""
        if group:
            lines.append(f'  subgraph g{members[0]}["{group}"]')
        lines += [f'  {indent}p{number}["{"<br>".join(_words(graph.nodes[number]))}"]' for number in members]
        if group:
            lines.append("  end")
    for source, target, labels in _arrows(graph):
        lines.append(f'  p{source} -- "{"<br>".join(labels)}" --> p{target}')
    for number, service in enumerate(graph.services):
        if not service.connects:
            lines.append(f'  s{number}(["{service.label}"]) --> p{service.binds}')
    lines += [f'  p{wait.waits} -. "after ({wait.condition})" .-> p{wait.on}' for wait in graph.dependencies]
    for health, (fill, line) in _COLOURS.items():
        if names := [f"p{i}" for i, node in enumerate(graph.nodes) if node.health == health]:
            lines.append(f"  classDef {health} fill:{fill},stroke:{line},color:#222")
            lines.append(f"  class {','.join(names)} {health}")
    return "\n".join(lines)


def dot(graph: Graph) -> str:
    """Return the graph in the language of Graphviz."""
    lines = [
        "digraph {",
        '  graph [rankdir=LR fontname="Helvetica" compound=true]',
        '  node [shape=box style="rounded,filled" fontname="Helvetica" fontsize=12]',
        '  edge [fontname="Helvetica" fontsize=10 color="#2f6fb0"]',
    ]
    for group, members in graph.groups.items():
        if group:
            lines.append(f'  subgraph "cluster_{group}" {{ label="{group}" style=rounded color="#bbbbbb"')
        for number in members:
            fill, line = _COLOURS[graph.nodes[number].health]
            words = "\\n".join(_words(graph.nodes[number]))
            lines.append(f'  p{number} [label="{words}" fillcolor="{fill}" color="{line}"]')
        if group:
            lines.append("  }")
    for source, target, labels in _arrows(graph):
        label = "\\n".join(labels)
        lines.append(f'  p{source} -> p{target} [label="{label}"]')
    for number, service in enumerate(graph.services):
        if not service.connects:
            lines.append(f'  s{number} [label="{service.label}" shape=plaintext style=""]')
            lines.append(f"  s{number} -> p{service.binds}")
    lines += [
        f'  p{wait.waits} -> p{wait.on} [label="after ({wait.condition})" style=dashed'
        f' color="{_DEPENDENCY_COLOUR}"]'
        for wait in graph.dependencies
    ]
    return "\n".join([*lines, "}"])


def _words(node: Node) -> tuple[str, ...]:
    return (node.name, node.state) if node.state else (node.name,)


def _arrows(graph: Graph) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the node that connects, the node that binds, and the services between them."""
    labels: dict[tuple[int, int], list[str]] = {}
    for service in graph.services:
        for client in service.connects:
            labels.setdefault((client, service.binds), []).append(service.label)
    for (source, target), label in labels.items():
        yield source, target, label


def picture(graph: Graph, kind: str) -> bytes:
    """Return the graph as an SVG or PNG file, drawn by Graphviz if it is installed.

    Raises:
        UserError: A package or a font for PNG is missing, or Graphviz failed.
    """
    if program := shutil.which("dot"):
        return _graphviz([program, f"-T{kind}"], dot(graph))
    if kind == "svg":
        return svg(graph).encode()
    try:
        import resvg_py
    except ImportError:
        raise UserError(
            "a PNG needs Graphviz or the package resvg-py",
            remedy="pip install 'symphony-launch[graph]', or use --svg",
        ) from None
    text = svg(graph)
    png = resvg_py.svg_to_bytes(svg_string=text, zoom=2)
    if png == resvg_py.svg_to_bytes(svg_string=re.sub("<text.*?</text>", "", text), zoom=2):
        raise UserError(f"a PNG needs one of the fonts {_FONTS}", remedy="Install fonts-dejavu, or use --svg")
    return png


def _graphviz(command: list[str], text: str) -> bytes:
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=_DEADLINE)
    except subprocess.TimeoutExpired:
        raise UserError(f"Graphviz did not end within {_DEADLINE} s", remedy="Use --mermaid") from None
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise UserError(f"Graphviz failed: {' '.join(words)}", remedy="Use --mermaid")
    return done.stdout


def svg(graph: Graph) -> str:
    """Return an SVG with a row for each node, and a column for each service and each dependency.

    An arrow leads from the column to the node that binds the service, or on which others depend. A line
    leads to the column from each node that connects or waits; a dot marks where they meet.
    """
    columns = [
        *((s.label, s.binds, s.connects, _LINES[i % len(_LINES)], "") for i, s in enumerate(graph.services)),
        *(
            (f"after ({w.condition})", w.on, (w.waits,), _DEPENDENCY_COLOUR, ' stroke-dasharray="5 4"')
            for w in graph.dependencies
        ),
    ]
    head = 20 + max((len(label) for label, *_ in columns), default=0) * _SMALL * 0.72
    tops, frames, bottom = _rows(graph, head)
    states = [16 + len(node.state) * _SMALL if node.state else 0 for node in graph.nodes]
    widths = [24 + len(node.name) * _LETTER + state for node, state in zip(graph.nodes, states, strict=True)]
    width = max(widths, default=0)
    left = _EDGE + _GAP
    first = left + width + 46
    right = first + _PITCH * len(columns) + head * 0.6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right:.0f} {bottom + _EDGE:.0f}"'
        f' width="{right:.0f}" height="{bottom + _EDGE:.0f}" font-family="{_FONTS}, sans-serif">',
        '<rect width="100%" height="100%" rx="8" fill="#ffffff"/>',
        f'<text x="{_EDGE}" y="28" font-size="17" font-weight="bold" fill="#222">{escape(graph.name)}</text>',
    ]
    link = f'stroke="{_LINK_COLOUR}" stroke-width="1.5"'
    across, dots = list[str](), list[str]()
    for group, top, end in frames:
        parts.append(
            f'<rect x="{_EDGE}" y="{top:.0f}" width="{width + 2 * _GAP:.0f}" height="{end - top:.0f}" rx="8"'
            ' fill="none" stroke="#bbbbbb"/>'
            f'<text x="{left}" y="{top + 16:.0f}" font-size="12" fill="#666">{escape(group)}</text>'
        )
    for number, (label, binds, clients, colour, dash) in enumerate(columns):
        x = first + _PITCH * number
        # The upper line of a row goes to the services that its process binds, the lower one to the others.
        bound, used = tops[binds] + 11, [tops[client] + 23 for client in clients]
        parts.append(
            f'<text transform="translate({x + 4:.0f},{head - 6:.0f}) rotate(-45)" font-size="12"'
            f' fill="{colour}">{escape(label)}</text>'
            f'<path d="M{x:.0f},{head:.0f} V{max([bound, *used]):.0f}" stroke="{colour}"{dash}'
            ' stroke-width="2"/>'
        )
        across += [f'<path d="M{x:.0f},{y:.0f} H{left + width:.0f}" {link}/>' for y in used]
        across.append(
            f'<path d="M{x:.0f},{bound:.0f} H{left + width + 9:.0f}" {link}/>'
            f'<path d="M{left + width + 1:.0f},{bound:.0f} l9,-4.5 v9 z" fill="{_LINK_COLOUR}"/>'
        )
        dots += [f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4.5" fill="{colour}"/>' for y in (bound, *used)]
    parts = [*parts, *across, *dots]
    for node, top in zip(graph.nodes, tops, strict=True):
        fill, stroke = _COLOURS[node.health]
        parts.append(
            f'<rect x="{left}" y="{top:.0f}" width="{width:.0f}" height="{_BOX}" rx="6" fill="{fill}"'
            f' stroke="{stroke}" stroke-width="1.5"/>'
            f'<text x="{left + 12}" y="{top + 22:.0f}" font-size="14" fill="#222">{escape(node.name)}</text>'
            f'<text x="{left + width - 12:.0f}" y="{top + 22:.0f}" font-size="12" fill="{stroke}"'
            f' text-anchor="end">{escape(node.state)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _rows(graph: Graph, head: float) -> tuple[list[float], list[tuple[str, float, float]], float]:
    """Return the top of each node, the frames of the groups with top and end, and the bottom."""
    tops, frames, y = [0.0] * len(graph.nodes), list[tuple[str, float, float]](), head + _GAP
    for group, members in graph.groups.items():
        start = y
        y += _TITLE if group else 0
        for number in members:
            tops[number] = y
            y += _ROW
        if group:
            frames.append((group, start, y))
            y += _GAP
    return tops, frames, y
