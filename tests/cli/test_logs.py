"""`symphony logs` prints the output of processes: names, colours, JSON, following, errors."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.cli.support import has_no_control
from tests.sandbox import SYMPHONY, Sandbox


def test_logs_of_one_process_as_text_json_tail_and_with_times(lab: Sandbox) -> None:
    lines = ["step 1", "step 2", "step 3"]
    assert lab.symphony("logs", "rl", "learner").out.splitlines() == lines
    rows = [json.loads(line) for line in lab.symphony("logs", "rl", "learner", "--json").out.splitlines()]
    assert [(row["text"], row["path"]) for row in rows] == [(line, "learner") for line in lines]
    (last,) = lab.symphony("logs", "learner", "-t", "1", "--times").out.splitlines()
    moment = time.strptime(last.removesuffix(" step 3"), "%Y-%m-%d %H:%M:%S")
    assert abs(time.time() - time.mktime(moment)) < 3600


def test_merged_lines_have_aligned_names(lab: Sandbox) -> None:
    lines = lab.symphony("logs", "rl").out.splitlines()
    assert len({line.index(" | ") for line in lines}) == 1
    assert {line.split(" | ")[0].strip() for line in lines} == {
        "learner",
        "agent-0",
        "agent-1",
        "eval/agent-0",
        "wild",
    }


def test_no_control_characters_reach_the_screen(lab: Sandbox) -> None:
    out = lab.symphony("logs", "rl").out
    assert has_no_control(out)
    assert "\u202e" not in out
    assert "red" in out
    assert "ended: exit 3" in out, "symphony adds this line"


def test_colours_are_kept_on_a_terminal_only(lab: Sandbox) -> None:
    """They are reset at the end of a line."""
    done = lab.run(["script", "-qec", f"{SYMPHONY} logs rl wild", "/dev/null"], env={"TERM": "xterm"})
    assert "\x1b[31mred" in done.out
    assert "back\x1b[0m" in done.out
    assert "\x1b[2J" not in done.out
    assert "\x1b" not in lab.symphony("logs", "rl", "wild").out
    assert "\\u001b" not in lab.symphony("logs", "rl", "wild", "--json").out
    assert "red" in lab.symphony("logs", "rl", "wild", "--grep", "^red").out, "a pattern sees no colours"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rl", "agent"), "agent-0, agent-1"),
        (("rl", "lerner"), "learner"),
        (("rl", "learner", "-s", "yesterday"), "5m"),
        (("rl", "learner", "-t", "-2"), "--tail"),
        (("rl", ""), "learner"),
    ],
    ids=["ambiguous", "near", "since", "negative tail", "empty"],
)
def test_logs_errors_are_one_line_with_candidates(lab: Sandbox, words: tuple[str, ...], message: str) -> None:
    ran = lab.symphony("logs", *words, code=2)
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1
    assert ran.out == ""


@pytest.mark.parametrize("number", [signal.SIGPIPE, signal.SIGTERM], ids=lambda n: n.name)
def test_follow_ends_without_traceback_on_a_signal(lab: Sandbox, number: signal.Signals) -> None:
    following = lab.start([str(SYMPHONY), "logs", "rl", "learner", "-f"])
    assert following.stdout is not None
    assert [following.stdout.readline() for _ in range(3)] == ["step 1\n", "step 2\n", "step 3\n"]
    if number == signal.SIGPIPE:
        following.stdout.close()
    following.terminate()
    following.wait(timeout=5)
    assert following.stderr is not None
    assert "Traceback" not in following.stderr.read()
    following.stderr.close()
