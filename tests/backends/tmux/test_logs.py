"""Logs in tmux: past and new lines, when following ends, exits, and large logs read in part."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from symphony.backends import process_logs as logs
from symphony.backends.observe import LogLine, ProcessStatus
from symphony.backends.tmux import diagnosis
from symphony_tmux import logs as files
from symphony_tmux.logs import Part
from symphony_tmux.tmux.client import Pane

OLD = 350_000


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a follow end sooner than for a user."""
    monkeypatch.setattr(logs, "_ENDED_AFTER", 0.02)
    monkeypatch.setattr(logs, "_POLL_SECONDS", 0.005)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "log").write_bytes(b"one\ntwo\n")
    return folder / "log"


@pytest.fixture
def long_log(log: Path) -> Path:
    """Return the log of a process that has printed for a day without pause."""
    marks = "".join(f"{1e9 + i / 4:.3f} {i * 9}\n" for i in range(1, OLD))
    log.write_bytes(b"12345678\n" * OLD)
    log.with_name("index").write_text(f"{1e9:.3f} 0 start 1 0\n{marks}")
    return log


@pytest.fixture
def parsed_marks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record each mark that is parsed from an index."""
    result: list[Any] = []
    real = files.IndexEntry
    monkeypatch.setattr(files, "IndexEntry", lambda *facts: result.append(facts) or real(*facts))
    return result


def write_log_and_index(log: Path, older: str | None, newer: str | None) -> None:
    for name, text in (("index.1", older), ("index", newer)):
        if text is not None:
            log.with_name(name).write_text(text)


def lines(log: Path, alive: Callable[[], bool] | None = None, **facts: Any) -> Iterator[LogLine]:
    process = {"a": {"log": str(log), **facts}}
    return logs.merge_lines(process, ["a"], since=None, tail=None, alive=alive)


def texts(log_lines: Iterator[LogLine]) -> list[str]:
    return [line.text for line in log_lines]


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def endless_parts(data: bytes, most: int = 1000) -> Iterator[Part | None]:
    """Yield parts faster than a reader takes them; a reader that waits for the end fails."""
    for _ in range(most):
        yield Part(time.time(), 0, data)
    raise AssertionError("read on and on")


QUIET = [
    pytest.param("1.000 0 more 1 0\n2.000 4\n", "3.000 0 more 1 0\n", id="rotated twice"),
    pytest.param(None, None, id="without perl"),
]


@pytest.mark.parametrize(("older", "newer"), QUIET)
def test_following_continues_while_the_process_lives(log: Path, older: str | None, newer: str | None) -> None:
    write_log_and_index(log, older, newer)
    answers = iter([True, True, False])
    assert texts(lines(log, lambda: next(answers))) == ["one", "two"]
    assert list(answers) == []


def test_the_exit_is_printed_after_two_log_rotations(log: Path) -> None:
    write_log_and_index(log, "1.000 0 more 1 0\n", "3.000 0 more 1 0\n4.000 8 exit 3\n")
    assert texts(lines(log, lambda: False)) == ["one", "two", "ended: exit 3"]


def test_status_shows_a_pending_restart_after_two_log_rotations(log: Path) -> None:
    status = ProcessStatus("a", "running", ready=True, since=7.0)
    write_log_and_index(log, "1.000 0 more 1 2\n", "3.000 0 more 1 2\n")
    assert logs.starting_again(status, str(log), 1).since == 7.0
    write_log_and_index(log, None, "3.000 0 more 1 2\n4.000 8 exit 3\n")
    result = logs.starting_again(status, str(log), 1)
    assert (result.state, result.why, result.restarts) == ("waiting", "restarting after exit 3: two", 2)
    # `up` has started it once more, and the new supervisor has written nothing yet.
    assert logs.starting_again(status, str(log), 2) == status


def test_a_long_log_is_read_only_in_part(long_log: Path, parsed_marks: list[Any]) -> None:
    index = long_log.with_name("index")
    before = bytes_read()
    result = logs.starting_again(ProcessStatus("a", "running", ready=True), str(long_log), 1)
    assert (result.state, result.since, result.restarts) == ("running", 1e9, 0)
    assert len(parsed_marks) < 10
    assert bytes_read() - before < index.stat().st_size * 1.1

    reader = logs._Reader("a", {"log": str(long_log)})
    assert len(list(reader.lines_so_far(None, 3))) == 3
    assert list(reader.lines_so_far(1e9 + OLD, None)) == []
    assert len(parsed_marks) < OLD / 5

    # The index is read on from where the last read ended.
    assert reader._ends() == []
    with index.open("a") as file:
        file.write(f"{1e9 + OLD:.3f} {OLD * 9} exit 3\n")
    before = bytes_read()
    assert [end.text for end in reader._ends()] == ["ended: exit 3"]
    assert reader._ends() == []
    assert bytes_read() - before < 1 << 16

    # The first lines come before the whole log is read.
    long_log.write_bytes(b"12345678\n" * OLD * 10)
    before = bytes_read()
    assert texts(itertools.islice(lines(long_log), 2)) == ["12345678"] * 2
    assert bytes_read() - before < 10_000_000


def test_following_shows_lines_of_a_process_that_never_pauses(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "follow", lambda *_, **__: endless_parts(b"fast\n"))
    result = lines(log, lambda: True)
    assert texts(itertools.islice(result, 50)) == ["one", "two", *["fast"] * 48]


def test_following_shows_an_endless_line_in_pieces(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "follow", lambda *_, **__: endless_parts(b"x" * 100_000))
    assert len(texts(itertools.islice(lines(log, lambda: True), 3))[2]) < 1 << 21


def test_only_the_last_state_of_a_progress_bar_is_kept(log: Path) -> None:
    reader = logs._Reader("a", {"log": str(log)})
    for percent in range(100):
        assert reader.lines(Part(1, 0, b"\r%d%%" % percent)) == []
    assert reader._rest == b"99%"
    assert [line.text for line in reader.lines(Part(2, 0, b"\r\n"))] == ["99%"]


@pytest.mark.parametrize("text", [b"a\r1\r\r\nb\r\n\r\nc\rd\n", b"\r\r\n\ra\n", b"ab\n\ncd\r\n"])
def test_lines_do_not_depend_on_how_the_data_is_split(log: Path, text: bytes) -> None:
    def shown(*pieces: bytes) -> list[str]:
        reader = logs._Reader("a", {"log": str(log)})
        return [line.text for piece in pieces for line in reader.lines(Part(1, 0, piece))]

    whole = shown(text)
    for i, j in itertools.combinations(range(len(text) + 1), 2):
        assert shown(text[:i], text[i:j], text[j:]) == whole


def test_a_fast_process_does_not_starve_the_logs_of_others(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = iter([endless_parts(b"fast\n"), iter([Part(1, 0, b"slow\n"), *[None] * 100])])
    monkeypatch.setattr(files, "follow", lambda *_, **__: next(streams))
    processes = {path: {"log": str(log.with_name(path))} for path in ("fast", "slow")}
    result = logs.merge_lines(processes, ["fast", "slow"], since=None, tail=None, alive=lambda: True)
    assert "slow" in texts(itertools.islice(result, 10))


def test_the_exit_is_printed_after_all_earlier_lines(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(*_: Any, **__: Any) -> Iterator[Part | None]:
        write_log_and_index(log, None, "1.000 0 start 1 0\n2.000 8 exit 3\n")
        yield from [None, *[Part(2, 0, b"more\n")] * 9, *[None] * 100]

    monkeypatch.setattr(files, "follow", stream)
    assert texts(lines(log, lambda: False)) == ["one", "two", *["more"] * 9, "ended: exit 3"]


def test_lines_written_during_the_final_check_are_printed(log: Path) -> None:
    def alive() -> bool:
        with log.open("ab") as file:
            file.write(b"last words\n" if not calls else b"")
        calls.append(True)
        return False

    calls: list[bool] = []
    assert texts(lines(log, alive)) == ["one", "two", "last words"]


def test_a_last_line_without_newline_is_printed_before_the_exit(log: Path) -> None:
    def alive() -> bool:
        if not calls:
            with log.open("ab") as file:
                file.write(b"result: 42")
            write_log_and_index(log, None, "1.000 0 start 1 0\n2.000 18 exit 0\n")
        calls.append(True)
        return len(calls) == 1

    calls: list[bool] = []
    assert texts(lines(log, alive)) == ["one", "two", "result: 42", "ended: exit 0"]


def test_a_rotation_during_reading_loses_no_line(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE", 16)
    log.write_bytes(b"".join(b"line %d\n" % i for i in range(50)))
    write_log_and_index(log, None, "1.000 0 start 1 0\n2.000 14\n3.000 200\n")
    result = lines(log, lambda: False)
    assert next(result).text == "line 0"
    for name in ("log", "index"):
        log.with_name(name).rename(log.with_name(f"{name}.1"))
    log.write_bytes(b"line 50\nline 51\n")
    write_log_and_index(log, None, "4.000 0 more 1 0\n5.000 16 exit 0\n")
    assert texts(result) == [*(f"line {i}" for i in range(1, 52)), "ended: exit 0"]


SHELL = "experiments/rl/processes/a/launch.sh: line 16: 21331 Killed      sleep 5000\n"
PREAMBLE = "[symphony: preamble_cmds line 1 failed with exit 4: activate x (append || true to ignore it)]\n"


@pytest.mark.parametrize(
    ("code", "last", "why"),
    [
        (137, SHELL, "killed by SIGKILL: sleep 5000"),
        (4, PREAMBLE, "preamble_cmds line 1 failed with exit 4: activate x"),
    ],
    ids=["killed program", "preamble"],
)
def test_status_names_what_failed_in_a_shell_script_once(log: Path, code: int, last: str, why: str) -> None:
    with log.open("a") as file:
        file.write(last)
    write_log_and_index(log, None, f"1.000 0 start 1 0\n2.000 8 exit {code}\n")
    pane = Pane("$1", "@1", "%1", 1, 7, dead=True, exit_code=code, signal=None, ended=2)
    status = ProcessStatus("a", "failed", ready=False)
    assert diagnosis.with_end_reason(status, pane, {"log": str(log), "attempt": 1}).why == why


def test_last_lines_are_those_of_the_last_start_with_their_indentation(log: Path) -> None:
    before, now = b"one\ntwo\n", b"  File x\n\nexperiments/rl/processes/a/launch.sh: line 16: no: not found\n"
    log.write_bytes(before + now)
    marks = f"1.0 0 start 1 0\n2.0 {len(before)} exit 1\n3.0 {len(before)} start 2 0\n4.0 99 exit 1\n"
    log.with_name("index").write_text(marks)
    assert logs.last_lines(str(log), 5) == ("  File x", "no: not found")
    log.write_bytes(before)
    assert logs.last_lines(str(log), 5) == ()
    assert "./launch.sh: line 3: mine" in logs._as_text(b"./launch.sh: line 3: mine")  # pyright: ignore[reportPrivateUsage]
