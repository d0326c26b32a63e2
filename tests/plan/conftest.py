"""Targets to plan for, and fixtures that run a program and return its declaration, problems or plan."""

from __future__ import annotations

import runpy
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from symphony.backends import registry
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.build import build_plan
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec
from tests.plans import problems

PRELUDE = "from symphony import Experiment, Probe, Process, ProcessGroup\n"
MARK = "# <-"


class AnyPort(dict[str, int]):
    """A mapping that gives each service a constant port."""

    def __missing__(self, service: str) -> int:
        return 7000 + sum(service.encode()) % 1000


@pytest.fixture(scope="session")
def tmux() -> BackendLimits:
    return BackendLimits(
        backend="tmux",
        physical_name="rl",
        starts="command",
        supports=registry.get("tmux").settings,
        one_host=True,
        host_of="127.0.0.1",
        bind_host="127.0.0.1",
        ports=AnyPort(),
        defaults={"start_dir": "/work"},
        gpus=0,
    )


@pytest.fixture(scope="session")
def kubernetes(tmux: BackendLimits) -> BackendLimits:
    return replace(
        tmux,
        backend="kubernetes",
        starts="image",
        supports=registry.get("kubernetes").settings,
        one_host=False,
        host_of="{service}.rl.svc",
        bind_host="0.0.0.0",
        defaults={},
        gpus=None,
    )


@pytest.fixture
def declare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[ExperimentSpec, list[int]]]:
    """Run a program that defines `exp`; return its declaration and the numbers of the marked lines."""

    def run(program: str) -> tuple[ExperimentSpec, list[int]]:
        text = PRELUDE + textwrap.dedent(program)
        file = tmp_path / "program.py"
        monkeypatch.chdir(tmp_path)
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        made = runpy.run_path(str(file))
        lines = text.splitlines()
        return made["exp"].spec, [number for number, line in enumerate(lines, 1) if MARK in line]

    return run


@pytest.fixture
def problems_of(
    declare: Callable[[str], tuple[ExperimentSpec, list[int]]], tmux: BackendLimits
) -> Callable[..., list[Problem]]:
    """Return every problem of a program, in the order of the report."""

    def gather(program: str, limits: BackendLimits = tmux, **backend: Any) -> list[Problem]:
        return list(problems(declare(program)[0], replace(limits, **backend)))

    return gather


@pytest.fixture
def planned(
    declare: Callable[[str], tuple[ExperimentSpec, list[int]]], tmux: BackendLimits
) -> Callable[..., Any]:
    """Return the plan of a valid program."""

    def make(program: str, limits: BackendLimits = tmux, **backend: Any) -> Any:
        return build_plan(declare(program)[0], replace(limits, **backend))

    return make
