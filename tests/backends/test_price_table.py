"""A user's own price file: its fields, and the errors of a wrong one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from symphony.backends import price_table
from symphony.errors import UserError
from symphony.placement.machines import GIB
from symphony.placement.pool import LIST_PRICES, Pool
from tests.placement.fleet import CHEAP, CPU, GPU, pool

TABLE = """
date: 2026-11
region: europe-west4
on_demand:
  machines:
    n1: [0.03, 0.004]
    n1-highmem-8: 0.4
    x9-new-8: 7
    x9-new-16: [0.5, 0.1]
  gpus:
    v100: 2
    nvidia-x900: 3
"""


def test_hourly_prices_by_machine_family_machine_type_and_gpu(tmp_path: Path):
    (tmp_path / "prices.yaml").write_text(TABLE)
    prices = price_table.read("prices.yaml", tmp_path)
    assert (prices.date, prices.region) == ("2026-11", "europe-west4")
    assert prices.hourly(CPU) == 0.4
    assert prices.hourly(GPU) == pytest.approx(8 * 0.03 + 30 * 0.004 + 2)
    newer = Pool(name="x", machine_type="x9-new-16", cpu=16, memory=64 * GIB, gpu_type="nvidia-x900", gpus=2)
    assert prices.hourly(newer) == pytest.approx(16 * 0.5 + 64 * 0.1 + 6)
    assert prices.hourly(CHEAP) is None
    assert price_table.read(None, tmp_path) is LIST_PRICES
    assert prices.hourly(pool("new", "n2-standard-8")) is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("- 1", "got `array`"),
        ("on_demand: 3", "$.on_demand"),
        ("spot: {machines: {n1: cheap}}", "$.spot.machines"),
        ("spot: {machines: {n1: [1, 2, 3]}}", "$.spot.machines"),
        ("on_demand: {gpus: {nvidia-l4: -1}}", "$.on_demand.gpus"),
        ("ondemand: {}", "ondemand"),
        ("spot: {machines: {nl: [1, 2]}}", "'nl'"),
        ("spot: {gpus: {tesla-v10: 1}}", "did you mean nvidia-tesla-v100?"),
        ("a: [", "is not a price list"),
    ],
)
def test_an_invalid_price_file_is_an_error_that_names_the_field(tmp_path: Path, text: str, part: str):
    (tmp_path / "prices.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        price_table.read("prices.yaml", tmp_path)
    assert caught.value.what.startswith("the price file prices.yaml ")
    assert part in caught.value.what
    assert caught.value.where == "symphony:prices"


def test_a_missing_price_file_or_a_pipe_is_an_error(tmp_path: Path):
    with pytest.raises(UserError, match=r"none.yaml cannot be read: no such file"):
        price_table.read("none.yaml", tmp_path)
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(UserError, match=r"pipe.yaml cannot be read: not a regular file"):
        price_table.read("pipe.yaml", tmp_path)
