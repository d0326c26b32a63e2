"""Conversion of values to the types of settings; an error names the setting and the part."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from symphony.errors import UserError
from symphony.spec import convert
from symphony.spec.convert import WrongTypeError
from symphony.spec.process import services

EVERY_LIBRARY = [
    (1, "1"),
    (0.001, "0.001"),
    (True, "True"),
    (np.int64(3), "3"),
    (np.float32(0.1), "0.1"),
    (np.bool_(True), "True"),
    (np.array(2.5), "2.5"),
    (Decimal("0.10"), "0.10"),
    (Path("data"), "data"),
    ("x", "x"),
]


@pytest.mark.parametrize(("value", "text"), EVERY_LIBRARY)
def test_args_and_env_accept_the_same_values(value, text):
    assert convert.arguments([value], "args") == (text,)
    assert convert.environment({"A": value}, "env") == {"A": text}


@pytest.mark.parametrize(
    ("converter", "value", "part", "kind"),
    [
        (convert.texts, 5j, "x", "complex"),
        (convert.texts, ["a", None], "x[1]", "None"),
        (convert.texts, ["a", b"y"], "x[1]", "bytes"),
        (convert.words, {}, "x", "dict"),
        (convert.environment, ["A=1"], "x", "list"),
        (convert.environment, {"A": None}, "x['A']", "None"),
        (convert.environment, {1: "A"}, "a name in x", "int"),
        (convert.strict_text, 5, "x", "int"),
        (convert.NUMBER, "1", "x", "str"),
        (convert.NUMBER, 1.5, "x", "float"),
        (convert.NUMBER, True, "x", "bool"),
        (convert.FLAG, "yes", "x", "str"),
        (convert.QUANTITY, [1], "x", "list"),
        (convert.manifest, {"spec": [b"x"]}, "x.spec[0]", "bytes"),
        (convert.manifest, {"spec": {1: 2}}, "a name in x.spec", "int"),
        (services, 7000, "x", "int"),
        (services, None, "x", "None"),
        (services, {"s": "7"}, "port", "str"),
    ],
)
def test_a_wrong_type_names_its_part(converter, value, part, kind):
    with pytest.raises(WrongTypeError) as raised:
        converter(value, "x")
    assert raised.value.what.startswith(f"{part} has the type {kind}")
    assert raised.value.remedy
    assert "test_convert.py:" in raised.value.where


def test_unbalanced_quotes_in_a_command_are_refused():
    with pytest.raises(UserError) as raised:
        convert.words('x "', "a: command")
    assert raised.value.what.startswith("a: command ")


def test_a_negative_duration_is_refused_as_negative():
    with pytest.raises(UserError, match="negative"):
        convert.duration(-3, "stop_after")
