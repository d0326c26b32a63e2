"""Conversion of values to the types of settings; an error names the setting and the part."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from symphony.errors import UserError
from symphony.spec import setting

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


def test_unbalanced_quotes_in_a_command_are_refused():
    with pytest.raises(UserError) as raised:
        setting.words('x "', "a: command")
    assert raised.value.what.startswith("a: command ")


def test_a_negative_duration_is_refused_as_negative():
    with pytest.raises(UserError, match="negative"):
        setting.duration(-3, "stop_after")
