"""The headline and the table cells of `symphony top`."""

from collections.abc import Sequence

from symphony.operations.graph import folded_name
from symphony.operations.process import BAD, ago, is_well, percent, size
from symphony.operations.top import Edge, Row, View

HEAD = ("group", "process", "ready", "state", "cpu", "mem", "gpu", "restarts", "age", "node", "last line")
SERVICES = ("service", "port", "bound by", "clients", "connected", "answers")


def headline(view: View) -> str:
    """Return `rl   tmux   12 of 12 ready   up 3h 12m`."""
    if view.trouble:
        return f"{view.name}   {view.trouble}"
    up = f"up {ago(view.since)}" if view.since else ""
    return "   ".join(filter(None, (view.name, view.backend, f"{view.ready} of {len(view.rows)} ready", up)))


def cells(rows: Sequence[Row], name: str) -> tuple[str, ...]:
    """Return the cells of a row: of a single process, or of several that share the row."""
    statuses = [row.status for row in rows]
    well = sum(map(is_well, statuses))
    worst = min(statuses, key=lambda status: (is_well(status), status.state not in BAD))
    many = len(rows) > 1
    return (
        folded_name([status.group for status in statuses]),
        name,
        f"{well}/{len(rows)}" if many else ("yes" if well else "no"),
        f"{worst.state}: {worst.why}" if worst.why and not is_well(worst) else worst.state,
        percent(_sum([row.used.cpu for row in rows])),
        size(_sum([row.used.memory for row in rows])),
        ", ".join(dict.fromkeys(row.used.gpu for row in rows if row.used.gpu)) or "-",
        str(sum(status.restarts for status in statuses)),
        ago(min((status.since for status in statuses if status.since), default=None)) or "-",
        ", ".join(dict.fromkeys(row.used.node for row in rows)),
        next((row.line for row in rows if row.line), ""),
    )


def _sum(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def edge_cells(edge: Edge) -> tuple[str, ...]:
    """Return the cells of SERVICES for one service."""
    clients, is_seen = edge.connects, edge.listens is not None
    answers = ("yes" if edge.listens else "no") if is_seen else ("ready" if edge.ready else "not ready")
    if edge.seconds is not None:
        answers = f"in {edge.seconds * 1000:.1f} ms"
    if edge.trouble:
        answers = ", ".join(filter(None, (edge.trouble, ago(edge.since))))
    return (
        edge.service,
        str(edge.port or "-"),
        edge.binds,
        _folded(clients),
        f"{len(edge.connected & set(clients))}/{len(clients)}" if is_seen and clients else "",
        answers,
    )


def _folded(paths: Sequence[str]) -> str:
    """Return the processes that connect to a service in short: `agents/0..3, judge`."""
    alike: dict[str, list[str]] = {}
    for path in paths:
        alike.setdefault(path.rstrip("0123456789"), []).append(path)
    return ", ".join(map(folded_name, alike.values()))
