"""The equivalent ways to name services."""

from __future__ import annotations

import pytest

from symphony.spec.process import services


@pytest.mark.parametrize(
    ("arguments", "uses"),
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
def test_services_may_be_names_lists_or_mappings(arguments, uses):
    assert [(use.name, use.port) for use in services(arguments, "binds")] == uses
