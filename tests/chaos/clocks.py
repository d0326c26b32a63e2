"""Puts the time of day back and forward under supervisors and commands; nothing else of the machine sees it.

Both read it from a file of their own: its offset is added to the real time, that since the boot goes on.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.trial import STACK, Trial, Try, first_processes, within

STEPS = 5
# Up to a year to either side, also the hour of a summer time.
SECONDS = (3600, 86_400, 31_536_000)
PERL = """
package Step;
use Time::HiRes;
my $clock = \\&Time::HiRes::time;
my $step = sub { open(my $file, '<', '%(file)s') or return 0; return <$file> + 0 };
no warnings qw(redefine prototype);
*Time::HiRes::time = sub { $clock->() + $step->() };
*CORE::GLOBAL::time = sub { CORE::time() + int $step->() };
1;
"""
PYTHON = """
import sys, time
real = time.time
time.time = lambda: real() + float(open(%(file)r).read())
from symphony.cli.main import main
sys.exit(main())
"""
FAILING = (
    'e.new_process("fails", command=["sh", "-c", "date; sleep 0.2; exit 1"]).restart_policy("OnFailure")'
)


def clocks(trial: Trial) -> Iterator[Try]:
    """Five steps, while a process fails and is due to start again; every command goes on to work."""
    file = trial.sandbox.folder.parent / "step"
    file.write_text("0")
    _with_stepped_perl(trial, file)
    trial.declare(first_processes())
    program = trial.sandbox.folder / "__main__.py"
    program.write_text(program.read_text() + f"    {FAILING}\n")
    _symphony(trial, file, "up", STACK, "-y", code=None)
    for turn in range(STEPS):
        before = _restarts(trial)
        step = trial.random.choice(SECONDS) * trial.random.uniform(-1, 1)
        file.write_text(str(step))
        found_again = within(20, lambda seen=before: _restarts(trial) > seen) if turn < 3 else True
        _symphony(trial, file, "process", STACK)
        _symphony(trial, file, "logs", STACK, "-t", "2")
        result = trial.judged(f"a step of {step:.0f} s")
        if not found_again:
            result.broken.append("what failed was not started again within 20 s")
        yield result
    _symphony(trial, file, "delete", STACK, "-y")
    assert (end := trial.judged("delete", deleted=True)).survived, str(end)


def _with_stepped_perl(trial: Trial, file: Path) -> None:
    """A perl that is found first and has the other time."""
    folder = file.parent / "bin"
    folder.mkdir()
    (folder / "Step.pm").write_text(PERL % {"file": file})
    perl = folder / "perl"
    perl.write_text(f'#!/bin/sh\nexec {shutil.which("perl")} -I{folder} -MStep "$@"\n')
    perl.chmod(0o755)
    trial.sandbox.environment["PATH"] = f"{folder}{os.pathsep}{trial.sandbox.environment['PATH']}"


def _symphony(trial: Trial, file: Path, *words: str, code: int | None = 0) -> None:
    ran = trial.sandbox.run([sys.executable, "-c", PYTHON % {"file": str(file)}, *words], code=code)
    trial.longest = max(trial.longest, ran.seconds)


def _restarts(trial: Trial) -> int:
    """How often the supervisor of what fails has started it, by its own index."""
    return sum(
        line.split()[2:3] in (["start"], ["again"])
        for file in (trial.sandbox.home / "experiments").glob("*/processes/fails/index")
        for line in file.read_text().splitlines()
    )
