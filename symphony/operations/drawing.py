"""Draws the graph of an experiment: as Mermaid, with Graphviz, or as a simple SVG without Graphviz."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from xml.sax.saxutils import escape

from symphony.errors import UserError
from symphony.operations.graph import Graph, Health, Node

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
_ORDER, _THREAD = "#888888", "#9aa5b1"
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
    lines += [f'  p{order.waits} -. "after ({order.condition})" .-> p{order.on}' for order in graph.order]
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
        f'  p{order.waits} -> p{order.on} [label="after ({order.condition})" style=dashed color="{_ORDER}"]'
        for order in graph.order
    ]
    return "\n".join([*lines, "}"])


def _words(node: Node) -> tuple[str, ...]:
    return (node.name, node.state) if node.state else (node.name,)


def _arrows(graph: Graph) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the node that connects, the node that binds, and the services between them."""
    labels: dict[tuple[int, int], list[str]] = {}
    for service in graph.services:
        for user in service.connects:
            labels.setdefault((user, service.binds), []).append(service.label)
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
    """Return a picture of processes as rows and services as columns.

    An arrow leads from the column of a service to the process that binds it; a line leads to the column from
    each process that connects, and a dot joins them.
    """
    columns = [
        *((s.label, s.binds, s.connects, _LINES[i % len(_LINES)], "") for i, s in enumerate(graph.services)),
        *(
            (f"after ({o.condition})", o.on, (o.waits,), _ORDER, ' stroke-dasharray="5 4"')
            for o in graph.order
        ),
    ]
    head = 20 + max((len(label) for label, *_ in columns), default=0) * _SMALL * 0.72
    tops, frames, bottom = _rows(graph, head)
    width = max(_width(node) for node in graph.nodes) if graph.nodes else 0
    left = _EDGE + _GAP
    first = left + width + 46
    right = first + _PITCH * len(columns) + head * 0.6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right:.0f} {bottom + _EDGE:.0f}"'
        f' width="{right:.0f}" height="{bottom + _EDGE:.0f}" font-family="{_FONTS}, sans-serif">',
        '<rect width="100%" height="100%" rx="8" fill="#ffffff"/>',
        f'<text x="{_EDGE}" y="28" font-size="17" font-weight="bold" fill="#222">{escape(graph.name)}</text>',
    ]
    thread = f'stroke="{_THREAD}" stroke-width="1.5"'
    across, dots = list[str](), list[str]()
    for group, top, end in frames:
        parts.append(
            f'<rect x="{_EDGE}" y="{top:.0f}" width="{width + 2 * _GAP:.0f}" height="{end - top:.0f}" rx="8"'
            ' fill="none" stroke="#bbbbbb"/>'
            f'<text x="{left}" y="{top + 16:.0f}" font-size="12" fill="#666">{escape(group)}</text>'
        )
    for number, (label, binds, users, colour, dash) in enumerate(columns):
        x = first + _PITCH * number
        # The upper line of a row is of the services that it binds, the lower one of those it connects to.
        bound, used = tops[binds] + 11, [tops[user] + 23 for user in users]
        parts.append(
            f'<text transform="translate({x + 4:.0f},{head - 6:.0f}) rotate(-45)" font-size="12"'
            f' fill="{colour}">{escape(label)}</text>'
            f'<path d="M{x:.0f},{head:.0f} V{max([bound, *used]):.0f}" stroke="{colour}"{dash}'
            ' stroke-width="2"/>'
        )
        across += [f'<path d="M{x:.0f},{y:.0f} H{left + width:.0f}" {thread}/>' for y in used]
        across.append(
            f'<path d="M{x:.0f},{bound:.0f} H{left + width + 9:.0f}" {thread}/>'
            f'<path d="M{left + width + 1:.0f},{bound:.0f} l9,-4.5 v9 z" fill="{_THREAD}"/>'
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


def _width(node: Node) -> float:
    return 24 + len(node.name) * _LETTER + (16 + len(node.state) * _SMALL if node.state else 0)


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
