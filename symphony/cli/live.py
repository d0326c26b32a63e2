"""The live screen of `symphony top`, drawn by Textual."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import ClassVar, Protocol, cast

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from symphony.cli import screen
from symphony.cli.at_once import SYMPHONY
from symphony.cli.process import style_of
from symphony.cli.progress import names_of
from symphony.cli.top_table import HEAD, SERVICES, cells, edge_cells, headline
from symphony.operations.top import Row, View

# Seconds between two refreshes, and the maximum share of a CPU that they may take.
_PERIOD, _SHARE = 1.0, 0.2
_RIGHT = ("cpu", "mem", "restarts", "age")
# Columns to omit, in this order, if the terminal is too narrow.
_OMIT_FIRST = ("node", "age", "restarts", "gpu", "port")
# Minimum widths, so that numbers can grow; the maximum width; the minimum width of a text column.
_LEAST, _WIDEST, _NARROW = {"cpu": 5, "mem": 5, "age": 7, "state": 9}, 40, 12
_STYLED = ("ready", "state", "answers")
_CLEAR = "\x1b[2J\x1b[H"
_ENTER = "\n[Enter returns to symphony top] "


class Source(Protocol):
    """The source of the views of an experiment."""

    def sample(self, last_lines_of: Sequence[str]) -> View: ...
    def check(self) -> bool: ...


class Live(App[None]):
    """An application that shows an experiment and runs the commands of its keys in the same terminal."""

    CSS = """
    Screen, #head, DataTable, #filter, Footer, Toast { background: ansi_default; color: ansi_default; }
    #head { height: 1; text-style: bold; }
    DataTable { height: auto; scrollbar-size: 0 1; }
    DataTable > .datatable--header { background: ansi_default; color: ansi_default; text-style: none; }
    DataTable > .datatable--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
    #processes { height: 1fr; }
    #services { max-height: 35%; margin-top: 1; }
    #filter { display: none; height: 1; border: none; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "logs", "logs"),
        Binding("w", "why", "why"),
        Binding("r", "restart", "restart"),
        Binding("s", "shell", "shell"),
        Binding("p", "stack", "stack"),
        Binding("d", "check", "connect"),
        Binding("f", "fold", "fold"),
        # With priority, so that keys typed right after the slash go to the filter.
        Binding("slash", "filter", "filter", key_display="/", priority=True),
        Binding("escape", "unfilter", show=False),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, source: Source, *, period: float = _PERIOD) -> None:
        # Use the terminal's colours; otherwise Textual draws black on black without colours.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self._source, self._period = source, period
        self._view = View("", "", (), ())
        self._is_folded, self._filter_text = True, ""
        # The processes of each row; by table, the column widths and the cells that are drawn.
        self._paths: dict[str, tuple[str, ...]] = {}
        self._shown: dict[str, tuple[dict[int, int], dict[str, dict[str, str]]]] = {}

    def compose(self) -> ComposeResult:
        yield Static("", id="head", markup=False)
        yield DataTable[Text](id="processes", cursor_type="row", cell_padding=1)
        yield DataTable[Text](id="services", cursor_type="none", show_cursor=False, cell_padding=1)
        yield Input(placeholder="part of a name; Enter keeps it, Esc clears it", id="filter", compact=True)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#processes").focus()
        self.run_worker(self._watch, thread=True, name="watch")

    def _watch(self) -> None:
        """Update the screen periodically; runs in a thread."""
        is_first = True
        while self.is_running:
            began = time.process_time()
            visible = self._visible_paths()
            view = self._source.sample(visible)
            if not self.is_running:
                return
            self.call_from_thread(self.show, view)
            took = time.process_time() - began
            # The first look has no last lines, since it did not know which rows are visible.
            self._pause(0 if is_first else max(self._period, took / _SHARE))
            is_first = False

    def _pause(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while self.is_running and time.monotonic() < ends:
            time.sleep(0.05)

    def _table(self, name: str) -> DataTable[Text]:
        return cast("DataTable[Text]", self.query_one(f"#{name}", DataTable))

    def _visible_paths(self) -> list[str]:
        """Return the first process of each visible row."""
        table = self._table("processes")
        first = int(table.scroll_offset.y)
        rows = list(self._paths.values())[first : first + self.size.height]
        return [paths[0] for paths in rows]

    def show(self, view: View) -> None:
        """Show a view; only changed cells are redrawn."""
        self._view = view
        self.query_one("#head", Static).update(screen.clean(headline(view)))
        rows = self._rows()
        self._paths = {key: tuple(row.status.path for row in members) for key, members in rows.items()}
        lines = {key: cells(members, key.rpartition("/")[2]) for key, members in rows.items()}
        self._fill(
            "processes",
            HEAD,
            lines,
            {key: style_of([row.status for row in members]) for key, members in rows.items()},
        )
        edges = {edge.service: edge_cells(edge) for edge in view.edges}
        broken = {edge.service: "bold red" if edge.trouble else "" for edge in view.edges}
        self._fill("services", SERVICES, edges, broken)
        services = self.query_one("#services")
        # Textual at times lays a table out before it knows how high the rows are, and shows none.
        services.styles.height = len(edges) + 1
        services.display = bool(edges)

    def _rows(self) -> dict[str, list[Row]]:
        """Return the rows, folded or not, that match the filter, by name."""
        by_path = {row.status.path: row for row in self._view.rows}
        if self._is_folded:
            folded = {node.path: [by_path[path] for path in node.paths] for node in self._view.graph.nodes}
        else:
            folded = {path: [row] for path, row in by_path.items()}
        text = self._filter_text.lower()
        return {key: rows for key, rows in folded.items() if text in f"{key} {rows[0].status.state}".lower()}

    def _fill(
        self,
        name: str,
        head: Sequence[str],
        rows: dict[str, tuple[str, ...]],
        styles: dict[str, str],
    ) -> None:
        table = self._table(name)
        widths = self._widths(head, rows)
        drawn = {key: {head[i]: screen.clean(row[i]) for i in widths} for key, row in rows.items()}
        before = self._shown.get(name)
        if before is None or before[0] != widths or list(before[1]) != list(drawn):
            cursor, offset = table.cursor_row, table.scroll_offset
            table.clear(columns=True)
            for i, width in widths.items():
                justify = "right" if head[i] in _RIGHT else "left"
                table.add_column(Text(head[i], "dim", justify=justify), key=head[i], width=width)
            for key, row in drawn.items():
                table.add_row(*(_cell(column, text, styles[key]) for column, text in row.items()), key=key)
            # The cursor stays on its process, not on the number of its row.
            keys, known = list(drawn), list(before[1]) if before else []
            at = known[cursor] if 0 <= cursor < len(known) else ""
            row = keys.index(at) if at in drawn else min(cursor, max(0, len(keys) - 1))
            table.move_cursor(row=row, scroll=False)
            table.scroll_to(y=offset.y, animate=False)
        else:
            for key, row in drawn.items():
                for column, text in row.items():
                    if before[1][key][column] != text:
                        table.update_cell(key, column, _cell(column, text, styles[key]))
        self._shown[name] = widths, drawn

    def _widths(self, head: Sequence[str], rows: dict[str, tuple[str, ...]]) -> dict[int, int]:
        """Return the widths of the columns that have content and fit; the last column takes the rest."""
        # The names in column 1 are always shown.
        used = [
            i for i in range(len(head)) if any(row[i] not in ("", "-") for row in rows.values()) or i == 1
        ]
        widths: dict[int, int] = {}
        for i in used:
            longest = max((screen.width(row[i]) for row in rows.values()), default=0)
            widths[i] = max(len(head[i]), _LEAST.get(head[i], 0), min(longest, _WIDEST))
        for column_name in _OMIT_FIRST:
            if self._rest(widths) < 0 and column_name in head:
                widths.pop(head.index(column_name), None)
        last = max(widths)
        while (rest := self._rest(widths)) < 0:
            # Shorten the last lines of logs first, then the widest column.
            column = last if head[last] == "last line" else max(widths, key=lambda i: widths[i])
            if widths[column] <= _NARROW:
                column = max(widths, key=lambda i: widths[i])
            if widths[column] <= _NARROW:
                break
            widths[column] -= 1
        return {**widths, last: widths[last] + max(0, rest)}

    def _rest(self, widths: dict[int, int]) -> int:
        """Return how many cells these columns and the scrollbar leave free; negative if too wide."""
        return self.size.width - 1 - sum(widths.values()) - 2 * len(widths)

    def action_logs(self) -> None:
        """Follow the output of the processes at the cursor."""
        self._symphony("logs", self._selected_paths(), "-f")

    def action_why(self) -> None:
        self._symphony("why", self._selected_paths()[:1])

    def action_restart(self) -> None:
        """Restart the processes at the cursor after a confirmation."""
        self._symphony(
            "restart", self._selected_paths(), question=f"Restart {names_of(self._selected_paths())}?"
        )

    def action_shell(self) -> None:
        self._symphony("ssh", self._selected_paths()[:1], wait=False)

    def _symphony(
        self, verb: str, paths: Sequence[str], *options: str, question: str = "", wait: bool = True
    ) -> None:
        if paths:
            self._run([*SYMPHONY, verb, self._view.name, *paths, *options], question, wait=wait)

    def action_stack(self) -> None:
        """Print the Python stack of the process at the cursor with py-spy."""
        chosen = self._selected_paths()[:1]
        status = next((row.status for row in self._view.rows if row.status.path in chosen), None)
        pid = status.pid if status is not None else None
        beside = Path(sys.executable).with_name("py-spy")
        program = str(beside) if beside.exists() else which("py-spy")
        if pid is None:
            where = " on this machine" if status is not None and status.state == "running" else ""
            self.notify(f"This process does not run{where}.", severity="warning", markup=False)
        elif program is None:
            self.notify("Run `pip install py-spy` to see stacks.", severity="warning", markup=False)
        else:
            self._run([program, "dump", "--pid", str(pid)])

    def _selected_paths(self) -> tuple[str, ...]:
        table = self._table("processes")
        keys = list(self._paths)
        return self._paths[keys[table.cursor_row]] if 0 <= table.cursor_row < len(keys) else ()

    def _run(self, command: Sequence[str], question: str = "", *, wait: bool = True) -> None:
        """Run a command in this terminal, after a confirmation if there is a question."""
        with self.suspend():
            print(_CLEAR, end="", flush=True)
            interrupts = list[int]()
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                if question and input(f"{screen.clean(question)} [y/N] ").strip().lower() not in ("y", "yes"):
                    return
                # Ctrl-C ends only the command.
                signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
                code = subprocess.run(command).returncode
                signal.signal(signal.SIGINT, signal.default_int_handler)
                # A command that fails says why.
                if (wait or code) and not interrupts:
                    input(_ENTER)
            except (EOFError, KeyboardInterrupt):
                pass
            finally:
                signal.signal(signal.SIGINT, before)

    def action_check(self) -> None:
        self.run_worker(self._check, thread=True, name="check", exclusive=True)

    def _check(self) -> None:
        if not self._source.check():
            words = "This machine cannot connect to any of the services, which run on other machines."
            self.call_from_thread(self.notify, words, severity="warning", markup=False)

    def action_fold(self) -> None:
        self._is_folded = not self._is_folded
        self.show(self._view)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Return whether a key does its action now; in the filter, a slash is text."""
        return action != "filter" or not isinstance(self.focused, Input)

    def action_filter(self) -> None:
        box = self.query_one("#filter", Input)
        box.display = True
        self.screen.set_focus(box)

    def action_unfilter(self) -> None:
        self.query_one("#filter", Input).value = ""
        self._end_filter()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter_text = event.value
        self.show(self._view)

    def on_input_submitted(self) -> None:
        self._end_filter()

    def _end_filter(self) -> None:
        box = self.query_one("#filter", Input)
        box.display = bool(box.value)
        self.query_one("#processes").focus()


def _cell(column: str, text: str, row_style: str) -> Text:
    style = row_style if column in _STYLED else "bold" if column in ("process", "service") else ""
    justify = "right" if column in _RIGHT else "left"
    return Text(text, style, justify=justify, no_wrap=True, overflow="ellipsis")
