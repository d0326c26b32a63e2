"""Real processes for the tests: `spawn` runs a program and ends it with the test."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

ROOT = Path(__file__).resolve().parents[2]


class Program:
    """A Python program in a process of its own; `line()` waits for its next line of output."""

    def __init__(self, source: str, arguments: tuple[object, ...], stdin: bool = False) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)],
            stdin=subprocess.PIPE if stdin else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            _, errors = self.process.communicate(timeout=10)
            raise AssertionError(f"the program ended with {self.process.returncode}: {errors}")
        return line

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self, signal: int = 9) -> None:
        self.process.send_signal(signal)
        if signal == 9:
            self.process.wait(10)

    def end(self, timeout: float) -> tuple[int, str, str]:
        output, errors = self.process.communicate(timeout=timeout)
        return self.process.returncode, output, errors


@pytest.fixture
def spawn() -> Iterator[Callable[..., Program]]:
    programs: list[Program] = []

    def start(source: str, *arguments: object, stdin: bool = False) -> Program:
        programs.append(Program(source, arguments, stdin))
        return programs[-1]

    yield start
    for program in programs:
        if program.process.poll() is None:
            program.process.send_signal(18)
            program.process.kill()
        program.process.wait(10)
        for pipe in (program.process.stdin, program.process.stdout, program.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def port() -> int:
    """A port on which nothing listens."""
    with zmq.Context() as context, context.socket(zmq.PULL) as probe:
        return probe.bind_to_random_port("tcp://127.0.0.1")
