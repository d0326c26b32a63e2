"""Legal names, their mapping to tmux and Kubernetes, nearest names, quoting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symphony.plan.names import (
    as_label,
    as_name,
    is_label,
    is_name,
    is_same,
    label_remedy,
    name_remedy,
    nearest,
    physical_name,
    printable,
    quoted,
)


@given(st.text())
def test_suggested_names_are_valid(name):
    suggestions = as_label(name), as_name(name)
    assert suggestions[0] == "" or is_label(suggestions[0])
    assert suggestions[1] == "" or is_name(suggestions[1])
    assert label_remedy(name)
    assert name_remedy(name)


@given(st.from_regex(r"[-a-zA-Z0-9_]{1,64}", fullmatch=True))
def test_valid_names_are_unchanged_and_labels_are_names(name):
    assert not is_label(name) or as_label(name) == as_name(name) == name
    assert not is_name(name) or as_name(name) == name


@pytest.mark.parametrize(
    ("name", "in_tmux", "on_kubernetes"),
    [
        ("agent_0", "agent_0", "agent-0"),
        ("Joy", "Joy", "joy"),
        ("My.Exp", "My-Exp", "my-exp"),
        ("modèle 1", "modele-1", "modele-1"),
        ("-x-", "x", "x"),
        ("模型", "", ""),
        ("Åsa Öberg", "Asa-Oberg", "asa-oberg"),
        ("__", "__", ""),
        ("a" * 70, "a" * 63, "a" * 63),
    ],
)
def test_names_are_mapped_for_tmux_and_kubernetes(name, in_tmux, on_kubernetes):
    assert as_name(name) == in_tmux
    assert as_label(name) == on_kubernetes
    assert not in_tmux or is_same(f"group/{name}", f"Group/{in_tmux}")


@pytest.mark.parametrize(
    ("stack", "name", "label"),
    [
        ("rl", "rl", "rl"),
        ("rl.gke", "rl-gke", "rl-gke"),
        ("me/project/rl.a.b", "rl-a-b", "rl-a-b"),
        ("RL_1", "RL_1", "rl-1"),
    ],
)
def test_physical_name_of_a_stack(stack, name, label):
    assert physical_name(stack, label=False) == name
    assert physical_name(stack, label=True) == label


def test_nearest_finds_a_similar_name():
    assert nearest("replay-sever", ["parameter-server", "replay-server"]) == "replay-server"
    assert nearest("a", ["b", "workers/a"]) == "workers/a"
    assert nearest("zzz", ["replay"]) is None
    assert nearest("a", []) is None


@given(st.text(), st.integers(2, 80))
def test_printable_escapes_control_characters_and_limits_length(text, limit):
    assert printable(text, limit).isprintable()
    assert len(printable(text, limit)) <= limit
    assert printable(text).isprintable()


def test_quoted():
    assert quoted("a") == '"a"'
    assert quoted("a\n") == r'"a\n"'
    assert quoted(5) == '"5"'
    assert quoted("x" * 61) == f'"{"x" * 59}…"'
