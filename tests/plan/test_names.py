"""The alphabet, the launched name, near names, and how a name is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symphony.plan.names import as_label, is_label, launched_name, nearest, printable, shown, why_not_label


@given(st.text())
def test_a_suggested_name_is_legal(name):
    suggestion = as_label(name)
    assert suggestion == "" or is_label(suggestion)
    assert why_not_label(name)


@given(st.text())
def test_what_is_legal_stays_as_it_is(name):
    assert not is_label(name) or as_label(name) == name.strip() == name


@pytest.mark.parametrize(
    ("stack", "name"), [("rl", "rl"), ("rl.gke", "rl-gke"), ("me/project/rl.a.b", "rl-a-b"), ("RL", "RL")]
)
def test_launched_name(stack, name):
    assert launched_name(stack) == name


@pytest.mark.parametrize(
    ("name", "suggestion"), [("agént", "agent"), ("Åsa Öberg", "asa-oberg"), ("straße", ""), ("学习", "")]
)
def test_accents_go_and_other_letters_are_not_guessed(name, suggestion):
    assert as_label(name) == suggestion


def test_nearest():
    assert nearest("replay-sever", ["parameter-server", "replay-server"]) == "replay-server"
    assert nearest("zzz", ["replay"]) is None
    assert nearest("a", []) is None


@given(st.text(), st.integers(2, 80))
def test_what_is_printable_is_short_and_harmless(text, limit):
    assert printable(text, limit).isprintable()
    assert len(printable(text, limit)) <= limit
    assert printable(text).isprintable()


def test_shown():
    assert shown("a") == '"a"'
    assert shown("a\n") == r'"a\n"'
    assert shown(5) == '"5"'
    assert shown("x" * 61) == f'"{"x" * 59}…"'
