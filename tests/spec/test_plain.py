"""Plain values are copied; what is not plain is named with its place."""

from __future__ import annotations

import enum

import pytest

from symphony.spec.plain import NotPlainError, plain


class Colour(enum.StrEnum):
    RED = "red"


def test_containers_and_values_of_other_kinds_become_plain_ones():
    assert plain({"a": (1, [True, None, 0.5])}) == {"a": [1, [True, None, 0.5]]}
    assert type(plain(Colour.RED)) is str
    assert plain(Colour.RED) == "red"


def test_the_copy_is_its_own():
    value = {"a": [1]}
    copy = plain(value)
    value["a"].append(2)
    assert copy == {"a": [1]}


@pytest.mark.parametrize(
    ("value", "part", "kind"),
    [
        (b"x", "", "bytes"),
        ({"a": [0, {"b": b"x"}]}, ".a[1].b", "bytes"),
        ({"a": {2: 1}}, ".a[2]", "int"),
    ],
)
def test_what_is_not_plain(value, part, kind):
    with pytest.raises(NotPlainError) as raised:
        plain(value)
    assert (raised.value.part, raised.value.kind) == (part, kind)


def test_what_holds_itself_or_is_deeper_than_any_manifest():
    endless: list[object] = []
    endless.append(endless)
    deep: list[object] = []
    for _ in range(1000):
        deep = [deep]
    for value in (endless, deep):
        with pytest.raises(NotPlainError):
            plain(value)


def test_a_part_may_occur_twice():
    part = [1]
    assert plain([part, part]) == [[1], [1]]
