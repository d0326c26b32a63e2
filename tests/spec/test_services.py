"""The ways to name services all say the same thing."""

from __future__ import annotations

import pytest

from symphony.spec.location import NOWHERE, Location
from symphony.spec.services import ServiceUse, read_services


@pytest.mark.parametrize(
    ("message", "uses"),
    [
        (("a",), [("a", None)]),
        (("a", "b"), [("a", None), ("b", None)]),
        ((["a", "b"],), [("a", None), ("b", None)]),
        ((("a", "b"), "c"), [("a", None), ("b", None), ("c", None)]),
        (({"b", "a"},), [("a", None), ("b", None)]),
        (({"a": 6006, "b": None},), [("a", 6006), ("b", None)]),
        ((["a", {"b": 1}],), [("a", None), ("b", 1)]),
        ((), []),
        (([],), []),
    ],
)
def test_forms(message, uses):
    assert [(use.name, use.port) for use in read_services(message, NOWHERE)] == uses


def test_every_use_knows_its_line():
    here = Location("program.py", 3)
    assert {use.where for use in read_services(("a", {"b": 1}), here)} == {here}


def test_a_list_that_holds_itself_is_kept_for_the_plan_to_refuse():
    endless: list[object] = ["a"]
    endless.append(endless)
    assert read_services((endless,), NOWHERE)[0] == ServiceUse("a")
