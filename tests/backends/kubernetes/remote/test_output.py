"""The output of `symphony exec` is complete; the end marker that symphony appends is removed."""

from __future__ import annotations

import os

import pytest

from symphony.backends.kubernetes.exec import Output

TOKEN = "0123456789abcdef"
MARK = b"\x1e" + TOKEN.encode()


@pytest.mark.parametrize("size", [1, 5, 100])
def test_the_end_marker_is_removed_whatever_the_chunk_size(size: int) -> None:
    marker = MARK + b"003"
    written = b"a\x1e0 " + MARK[:-1] + b"x " + MARK + b"x " + marker + b" of a child that still runs"
    reader, writer = os.pipe()
    output = Output(writer, TOKEN)
    became_whole = [output.write(written[start : start + size]) for start in range(0, len(written), size)]
    assert became_whole.count(True) == 1
    os.close(writer)
    assert os.read(reader, 1000) == written.replace(marker, b"")
    assert output.code == 3
    os.close(reader)


def test_output_that_ends_like_the_start_of_the_marker_is_kept() -> None:
    reader, writer = os.pipe()
    output = Output(writer, TOKEN)
    output.write(b"prompt: " + MARK[:4])
    assert os.read(reader, 1000) == b"prompt: "
    output.flush()
    assert os.read(reader, 1000) == MARK[:4]
    assert not output.is_whole
    os.close(writer)
    os.close(reader)
