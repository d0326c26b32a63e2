"""`symphony top`: one output with `--once`, and the live screen with its keys."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree

import msgspec
import pytest
from textual.widgets import DataTable

from scripts import picture
from symphony.cli.live import Live
from symphony.cli.top_table import SERVICES, edge_cells
from symphony.operations import graph
from tests.cli.top_views import Scripted, view
from tests.documents import text
from tests.sandbox import Ran, Sandbox, sandbox_in, wait_for
from tests.terminal import terminal

SERVER = (
    "import os,socket; s=socket.socket(); s.bind(('127.0.0.1', int(os.environ['SYMPH_S_PORT']))); s.listen();"
    "c=[]; print('serving', flush=True)\nwhile True: c.append(s.accept())"
)
CLIENT = (
    "import os,socket,time\n"
    "while True:\n"
    " try: s=socket.create_connection((os.environ['SYMPH_S_HOST'], int(os.environ['SYMPH_S_PORT']))); break\n"
    " except OSError: time.sleep(0.1)\n"
    "print('connected', flush=True); time.sleep(600)"
)
PROGRAM = f"""
with Experiment() as e:
    e.new_process("server", command=["python", "-c", {SERVER!r}], binds=["s"])
    for i in range(3):
        e.new_process(f"client-{{i}}", command=["python", "-c", {CLIENT!r}], connects=["s"])
"""


@pytest.fixture(autouse=True, scope="module")
def event_loop_for_others() -> Iterator[None]:
    """Set an event loop at the end: asyncio.run() leaves none, which Outputs in other tests need."""
    yield
    asyncio.set_event_loop(asyncio.new_event_loop())


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """An experiment `rl` of a server and its clients."""
    with sandbox_in(tmp_path_factory.mktemp("top")) as made:
        made.write(PROGRAM)
        made.symphony("up", "rl", "-y")
        yield made


def test_top_once_as_json_and_table(connected: Sandbox) -> None:
    def look() -> Ran:
        return connected.symphony("top", "rl", "--once", "--json", code=None)

    wait_for(lambda: len(look().json["services"][0]["connected"]) == 3, 30, "all are connected")
    ran = look()
    assert (ran.code, ran.json["ready"]) == (0, True)
    (service,) = ran.json["services"]
    assert (service["binds"], service["listens"], service["trouble"]) == ("server", True, "")
    by_path = {process["path"]: process for process in ran.json["processes"]}
    assert by_path["client-1"]["line"] == "connected"
    assert by_path["server"]["memory"] > 1 << 20
    assert by_path["server"]["cpu"] is not None
    shown = connected.symphony("top", "--once").out
    assert "4 of 4 ready" in shown
    assert re.search(r"^s +\d+ +server +client-0..2 +3/3 +yes", shown, re.MULTILINE)


def test_top_screen_and_keys_in_a_terminal(connected: Sandbox) -> None:
    with terminal(connected, [str(connected.program), "top", "rl"], columns=80, rows=24) as shown:
        shown.shows("3/3", 60)
        screen = shown.shows("4 of 4 ready")
        assert all(len(line) <= 80 for line in screen.splitlines())
        shown.type("d")  # connects to every service, and shows the time
        shown.shows(" ms")
        shown.type("f")
        shown.shows("client-2")
        shown.type("Down", "w")
        assert "declared" in shown.shows("Enter returns", 60)
        shown.type("C-c")
        shown.shows("filter")
        shown.type("l")
        shown.shows("connected\n")
        time.sleep(1)
        shown.type("C-c")
        shown.shows("filter")
        shown.type("/serv")
        wait_for(lambda: "client-1 " not in shown.screen(), 20, "the filter holds")
        shown.type("Escape")
        shown.shows("client-1 ")
        shown.type("p")
        assert "Thread" in shown.shows("Enter returns", 60)
        shown.type("Enter")
        shown.shows("filter")
        shown.type("r")
        shown.shows("[y/N]")
        shown.type("n", "Enter")
        shown.shows("filter")
        shown.type("q")
        assert shown.ends() == 0


def test_top_respects_no_color(connected: Sandbox) -> None:
    with terminal(connected, [str(connected.program), "top", "rl"], env={"NO_COLOR": "1"}) as shown:
        shown.shows("running", 60)
        coloured = re.findall(r"\x1b\[(?:\d+;)*([34][0-8]|9[0-7]|10[0-7])[m;]", shown.colours())
        assert not coloured
        shown.type("q")
        assert shown.ends() == 0


@pytest.mark.thorough
def test_top_shows_what_another_terminal_restarts_adds_and_deletes(connected: Sandbox) -> None:
    """It is the last test of the shared experiment, which it deletes."""
    with terminal(connected, [str(connected.program), "top", "rl"], columns=80, rows=24) as shown:
        shown.shows("3/3", 60)
        connected.symphony("restart", "rl", "client-*", "-y")
        connected.write(PROGRAM.replace("range(3)", "range(4)"))
        connected.symphony("up", "rl", "-y")
        screen = shown.shows("5 of 5 ready")
        assert "client-0..3" in screen
        assert "lost" not in screen
        connected.symphony("delete", "rl", "-y")
        shown.shows("rl is not up")
        shown.type("q")
        assert shown.ends() == 0


@pytest.mark.thorough
def test_top_once_exits_with_1_if_a_process_or_service_is_not_ready(sandbox: Sandbox) -> None:
    """One process failed, and nothing listens on the port of a service."""
    sandbox.write(
        "with Experiment() as e:\n"
        ' e.new_process("server", command=["sleep", "99"], binds=["s"])\n'
        ' e.new_process("client", command=["sleep", "99"], connects=["s"])'
    )
    sandbox.config("rl", patience="1")
    sandbox.symphony("up", "rl", "-y")
    ran = sandbox.symphony("top", "rl", "--once", "--json", code=1)
    assert {process["path"]: process["ready"] for process in ran.json["processes"]} == {
        "client": True,
        "server": False,
    }
    (service,) = ran.json["services"]
    assert (service["trouble"], service["since"]) == ("not listening", None), "when it began is not known"
    assert "terminal" in sandbox.symphony("top", "rl", code=2).err
    sandbox.write('with Experiment() as e: e.new_process("bad", command=["false"])')
    sandbox.symphony("up", "rl", "-y", code=1)
    assert "failed" in sandbox.symphony("top", "rl", "--once", code=1).out
    sandbox.symphony("delete", "rl", "-y")
    assert sandbox.symphony("top", "rl", "--once", code=2).err.count("\n") == 1


def test_notifications_use_the_default_colours_of_the_terminal() -> None:
    """On a light terminal, Textual would draw them black on black."""

    async def run() -> None:
        app = Live(Scripted(view()))
        async with app.run_test(notifications=True) as pilot:
            await pilot.press("d")
            while not app.query("Toast"):
                await pilot.pause(0.05)
            styles = app.query("Toast").first().styles
            assert (styles.color.ansi, styles.background.ansi) == (-1, -1)

    asyncio.run(run())


@pytest.mark.parametrize("name", picture.DRAWN)
def test_pictures_in_the_docs_are_up_to_date(name: str) -> None:
    """Digits are ignored."""
    drawn = picture.DRAWN[name]()
    ElementTree.fromstring(drawn)
    words = lambda svg: re.sub(r"\d", "0", svg)  # noqa: E731
    assert words(drawn) == words(text(f"docs/screens/{name}.svg")), "run `python -m scripts.picture`"


def test_last_log_lines_are_read_only_for_visible_rows() -> None:
    source = Scripted(view(1000))

    async def run() -> None:
        app = Live(source, period=0.05)
        async with app.run_test(size=(100, 20)) as pilot:
            await pilot.press("f")
            await pilot.pause(0.5)

    asyncio.run(run())
    assert 0 < len(source.asked[-1]) <= 20


def test_a_view_without_rows_is_not_read_without_pause() -> None:
    source = Scripted(replace(view(), rows=(), graph=graph.NOTHING))

    async def run() -> None:
        async with Live(source, period=60).run_test() as pilot:
            await pilot.pause(0.5)

    asyncio.run(run())
    assert len(source.asked) <= 2


def test_the_cursor_stays_on_its_process_while_others_come_and_go() -> None:
    first = view()
    source = Scripted(replace(first, graph=graph.NOTHING))

    async def run() -> None:
        app = Live(source, period=0.05)
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.press("f", "down", "down", "down")
            selected = app._selected_paths()  # pyright: ignore[reportPrivateUsage]
            source.view = replace(first, rows=first.rows[2:])
            await pilot.pause(0.5)
            assert app._selected_paths() == selected == ("agents/1",)  # pyright: ignore[reportPrivateUsage]

    asyncio.run(run())


def test_long_names_are_cut_so_that_important_columns_fit() -> None:
    first = view()
    rows = [
        replace(
            row,
            status=msgspec.structs.replace(
                row.status, path=f"agents-{'x' * 30}/{row.status.path[-1]}-{'y' * 30}"
            ),
        )
        for row in first.rows
    ]
    edges = [replace(edge, service=f"{edge.service}-{'z' * 30}", binds="b" * 50) for edge in first.edges]
    long = replace(first, rows=tuple(rows), edges=tuple(edges), graph=graph.NOTHING)

    async def run() -> None:
        app = Live(Scripted(long), period=60)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("f")
            await pilot.pause(0.5)
            for name, last in (("processes", "last line"), ("services", "answers")):
                columns = app.query_one(f"#{name}", DataTable).columns
                assert [str(key.value) for key in columns][-1] == last
                assert sum(column.width + 2 for column in columns.values()) <= 80
            height = app.query_one("#services").styles.height
            assert height is not None
            assert height.value == 1 + len(edges), "Textual sometimes gives it no height"

    asyncio.run(run())


def test_service_cells_show_connections_and_response_time_or_readiness() -> None:
    fast, broken = view().edges
    assert dict(zip(SERVICES, edge_cells(fast), strict=True)) == {
        "service": "replay",
        "port": "7001",
        "bound by": "learner",
        "clients": "agents/0..3",
        "connected": "4/4",
        "answers": "in 0.2 ms",
    }
    assert edge_cells(broken)[4:] == ("0/4", "not listening, 14s")
    assert edge_cells(replace(broken, since=None))[4:] == ("0/4", "not listening")
    elsewhere = replace(fast, listens=None, seconds=None)
    assert edge_cells(elsewhere)[4:] == ("", "ready")
    assert edge_cells(replace(elsewhere, ready=False))[4:] == ("", "not ready")
