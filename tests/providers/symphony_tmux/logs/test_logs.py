"""Reading log files: since and tail, rotation under load, a full disk, following."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from symphony.backends import process_logs as followed
from symphony_tmux import logs as reader
from symphony_tmux import names
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import windows


def _text(parts: Iterable[reader.Part]) -> bytes:
    return b"".join(part.data for part in parts)


def test_truncated_index_lines_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"abcdef")
    (tmp_path / "index").write_bytes(b"1.000 0 start 1\n2.0003.000 3\nx\n4.000 4\n5.0")
    assert [(part.time, part.data) for part in reader.read(tmp_path / "log")] == [
        (1.0, b"abcd"),
        (4.0, b"ef"),
    ]


def test_a_log_without_index_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"abc")
    assert [*reader.read(tmp_path / "log")] == [reader.Part(0, 0, b"abc")]
    assert [*reader.read(tmp_path / "none")] == []


def test_rotation_keeps_the_newest_lines_and_bounds_disk_use(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYMPHONY_LOG_CAP", "200000")
    rig.session("a")
    outputs = rig.start(
        "a", "sh", "-c", "i=0; while [ $i -lt 60000 ]; do echo this is line $i; i=$((i+1)); done; exit 2"
    )
    assert rig.ended(outputs, 60).pane.exit_code == 2
    folder = Path(outputs["log"]).parent
    sizes = [(folder / name).stat().st_size for name in ("log", "log.1")]
    assert all(0 < size <= 200_000 for size in sizes)
    lines = _text(reader.read(outputs["log"])).splitlines()
    assert lines[-1] == b"this is line 59999"
    numbers = [int(line.split()[-1]) for line in lines[1:]]
    assert numbers == list(range(numbers[0], 60000))
    assert {part.attempt for part in reader.read(outputs["log"])} == {1}


def test_a_full_disk_does_not_stop_the_process_and_is_told_in_window_and_log(rig: Any) -> None:
    if os.getuid():
        pytest.skip("only root can mount a small disk")
    rig.session("a")
    folder = names.process_folder("default", "rl", "a")
    folder.mkdir(mode=0o700, parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], check=True)
    flood = 'sleep 0.5; head -c 99999 /dev/zero | tr "\\0" x'
    try:
        outputs = rig.start("a", "sh", "-c", f"{flood}; exit 6")
        assert rig.ended(outputs).pane.exit_code == 6
        assert 0 < Path(outputs["log"]).stat().st_size < 65536
        assert "the log lost" in rig.screen(outputs)

        subprocess.run(["mount", "-o", "remount,size=128k", str(folder)], check=True)
        go = rig.home / "go"
        waits = f'{flood}; until [ -e "$0" ]; do sleep 0.05; done; echo end'
        outputs = windows.update(outputs, rig.inputs("a", "sh", "-c", waits, str(go)), Snapshot())
        rig.until(lambda: Path(outputs["log"]).stat().st_size > 90_000)
        time.sleep(0.3)
        subprocess.run(["mount", "-o", "remount,size=1m", str(folder)], check=True)
        go.touch()
        rig.ended(outputs)
        assert b"bytes of output lost: No space left on device]\nend\r\n" in rig.printed(outputs)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_following_continues_across_a_rotation(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMPHONY_LOG_CAP", "20000")
    rig.session("a")
    script = (
        "i=0; while [ $i -lt 2500 ]; do echo line $i; i=$((i+1)); [ $((i % 100)) = 0 ] && sleep 0.02; done; :"
    )
    outputs = rig.script("a", script)
    seen = b""
    deadline = time.monotonic() + 30
    for part in reader.follow(outputs["log"]):
        seen += part.data if part else b""
        time.sleep(0 if part else 0.005)
        if b"line 2499\r\n" in seen:
            break
        assert time.monotonic() < deadline
    assert (Path(outputs["log"]).parent / "log.1").exists()
    assert seen == b"".join(b"line %d\r\n" % i for i in range(2500))


def test_following_from_the_end_shows_only_new_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old\n")
    parts = reader.follow(log, reader.end(log))
    assert next(parts) is None
    with log.open("ab") as file:
        file.write(b"new\n")
    part = next(parts)
    assert part is not None
    assert part.data == b"new\n"


def test_a_supervisor_reads_all_lines_of_a_loud_process(tmp_path: Path) -> None:
    """Between two reads the process printed more than the supervisor reads at once."""
    log = tmp_path / "log"
    log.touch()
    outputs = reader.Outputs(lambda _: log)
    assert list(outputs.new_lines("a", "1")) == []
    numbers = [str(number) for number in range(400_000)]
    log.write_text("\n".join(numbers) + "\n")
    read: list[str] = []
    while new := list(outputs.new_lines("a", "1")):
        read += new
    assert read == numbers


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def test_tail_of_a_huge_log_reads_only_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for name in ("log.1", "log"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(100_000_000)
            file.seek(0, 2)
            file.write(b"\none\r\ntwo\r\nthree")
    before = _bytes_read()
    assert reader.last(log, 2) == b"two\r\nthree"
    assert followed.last_lines(str(log), 3) == ("one", "two", "three")
    assert _text(reader.read(log, tail=2)) == b"two\r\nthree"
    # One line of a hundred megabytes: only its end is read.
    assert len(reader.last(log, 5)) == 1 << 16
    assert _bytes_read() - before < 2_000_000


def test_an_endless_index_and_log_are_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can make its own files as large as it likes, without using disk."""
    monkeypatch.setattr(reader, "_LARGEST", 1 << 20)
    monkeypatch.setattr(reader, "_LARGEST_TAIL", 1 << 18)
    for name in ("index", "log"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 40)
    (tmp_path / "index.1").write_text("1.0 0 start 1\n")
    assert [attempt for attempt, _, _ in reader.attempts(tmp_path / "log")] == [1]
    assert sum(len(part.data) for part in reader.read(tmp_path / "log", tail=2)) <= 1 << 19


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("text", [b"a\nbb\nccc\n", b"a\nbb\nccc", b"\n\n\n", b"x", b"", b"a\r1\r2\nb\n"])
def test_tail_is_exact_for_any_block_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, text: bytes
) -> None:
    """Also for any size of the rotated file."""
    monkeypatch.setattr(reader, "BLOCK", block)
    lines = [line + b"\n" for line in text.split(b"\n")[:-1]] + [text.split(b"\n")[-1]] * bool(
        text.split(b"\n")[-1]
    )
    for cut in range(len(text) + 1):
        (tmp_path / "log.1").write_bytes(text[:cut])
        (tmp_path / "log").write_bytes(text[cut:])
        for count in range(5):
            wanted = b"".join(lines[len(lines) - count :] if count < len(lines) else lines)
            assert _text(reader.read(tmp_path / "log", tail=count)) == wanted
            assert reader.last(tmp_path / "log", count) == wanted


def test_a_log_rotated_during_reading_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old\n")
    position = reader.end(log)
    log.rename(tmp_path / "log.1")
    log.write_bytes(b"new\n")
    assert _text(reader.read(log, until=position)) == b"old\n"
    parts = reader.follow(log, position)
    seen = [part.data for part in (next(parts), next(parts)) if part]
    assert seen == [b"new\n"]


def test_attempts_whose_start_was_rotated_away_are_listed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    (tmp_path / "index.1").write_text("1.000 0 more 1 4\n2.000 5\n")
    (tmp_path / "index").write_text("3.000 0 more 1 4\n")
    assert reader.attempts(log) == [(1, 0, None)]
    assert reader.restarts(log) == 4
    with (tmp_path / "index").open("a") as file:
        file.write("4.000 9 exit 3\n5.000 9 start 2 0\n6.000 12\n")
    assert [(n, began, end and end.number) for n, began, end in reader.attempts(log)] == [
        (1, 0, 3),
        (2, 5, None),
    ]
    (tmp_path / "index").rename(tmp_path / "index.1")
    (tmp_path / "index").write_text("7.000 0 more 2 0\n8.000 3 signal 9\n")
    assert [(n, began, end and end.number) for n, began, end in reader.attempts(log)] == [
        (1, 0, 3),
        (2, 5, 9),
    ]


def test_events_continue_where_the_last_read_ended(tmp_path: Path) -> None:
    def add(text: str) -> None:
        with index.open("a") as file:
            file.write(text)

    index = tmp_path / "index"
    steps = reader.new_events(tmp_path / "log")
    events = (entry.event for result in steps for entry in [*result, reader.IndexEntry(0, 0)])
    assert next(events) == ""
    add("1.000 0 start 1\n2.000 3\n3.000 7 ex")
    assert [next(events), next(events)] == ["start", ""]
    add("it 3\n4.0")
    assert [next(events), next(events)] == ["exit", ""]
    # Rotated, with the last line cut off by a full disk.
    index.rename(tmp_path / "index.1")
    assert next(events) == ""
    add("5.000 0 more 1 0\n")
    assert [next(events), next(events)] == ["more", ""]
    # Rotated twice, so that the file it read is gone.
    add("6.000 5 exit 1\n")
    for event in ("again", "signal"):
        kept = index.rename(tmp_path / "index.1")
        (tmp_path / "held").hardlink_to(kept)
        index.write_text(f"7.000 0 {event} 1 1\n")
        (tmp_path / "held").rename(tmp_path / f"held-{event}")
    assert [next(events), next(events), next(events)] == ["again", "signal", ""]
    # The index was truncated.
    index.write_text("8.000 0 exit 5\n")
    assert [next(events), next(events)] == ["exit", ""]


@pytest.mark.parametrize("piece", [1, 7, 16, 1000])
@pytest.mark.parametrize("since", [0, 1.1, 2.4, 3.3, 9])
def test_parts_are_the_same_for_any_read_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, since: float
) -> None:
    """With `since` and `tail`, the skipped parts are missing."""
    log = tmp_path / "log"
    log.write_bytes(b"ab\ncd\nef\ngh\nij\n")
    (tmp_path / "index").write_text("1.000 0 start 1\n2.000 3\n3.000 6 exit 3\n3.500 6 start 2\n4.000 9\n")
    first = {0: 0, 1.1: 0, 2.4: 6, 3.3: 6, 9: 15}[since]
    wanted = [(1, 1), (1, 1), (1, 1), (2, 1), (2, 1), (2, 1), *[(3.5, 2)] * 3, *[(4, 2)] * 6]
    monkeypatch.setattr(reader, "PIECE", piece)
    for tail in (None, 4, 1):
        skipped = max(first, 0 if tail is None else 15 - 3 * tail)
        parts = list(reader.read(log, since=since, tail=tail))
        assert _text(parts) == log.read_bytes()[skipped:]
        assert [(part.time, part.attempt) for part in parts for _ in part.data] == wanted[skipped:]
