"""Conversion of values to the types of settings; an error names the setting and the part."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from symphony.errors import UserError
from symphony.spec import setting
from symphony.spec.process import services
from symphony.spec.setting import WrongTypeError

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
    assert setting.arguments([value], "args") == (text,)
    assert setting.environment({"A": value}, "env") == {"A": text}


@pytest.mark.parametrize(
    ("converter", "value", "part", "kind"),
    [
        (setting.texts, 5j, "x", "complex"),
        (setting.texts, ["a", None], "x[1]", "None"),
        (setting.texts, ["a", b"y"], "x[1]", "bytes"),
        (setting.words, {}, "x", "dict"),
        (setting.environment, ["A=1"], "x", "list"),
        (setting.environment, {"A": None}, "x['A']", "None"),
        (setting.environment, {1: "A"}, "a name in x", "int"),
        (setting.strict_text, 5, "x", "int"),
        (setting.NUMBER, "1", "x", "str"),
        (setting.NUMBER, 1.5, "x", "float"),
        (setting.NUMBER, True, "x", "bool"),
        (setting.FLAG, "yes", "x", "str"),
        (setting.QUANTITY, [1], "x", "list"),
        (setting.manifest, {"spec": [b"x"]}, "x.spec[0]", "bytes"),
        (setting.manifest, {"spec": {1: 2}}, "a name in x.spec", "int"),
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
        setting.words('x "', "a: command")
    assert raised.value.what.startswith("a: command ")


def test_a_negative_duration_is_refused_as_negative():
    with pytest.raises(UserError, match="negative"):
        setting.duration(-3, "stop_after")
