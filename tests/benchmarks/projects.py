"""The projects that are timed, each in a folder of its own with its own state and home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from symphony.engine import binary, environment

HERE = Path(__file__).parent
SYMPHONY = str(Path(sys.executable).with_name("symphony"))
DEADLINE = 1200

FLOOR = """
from noop_provider import Noop
for number in range({count}):
    Noop(f"noop-{{number}}")
"""
# The resources of an experiment of so many processes: a component for it and for each, a no-op in each.
TREE = """
from noop_provider import Noop
from pulumi import ComponentResource, ResourceOptions as Options
experiment = ComponentResource("bench:index:Experiment", "experiment")
Noop("session", experiment)
for number in range({count}):
    process = ComponentResource("bench:index:Process", f"p-{{number}}", None, Options(parent=experiment))
    Noop(f"noop-{{number}}", process)
"""
OURS = """
from symphony import Experiment
with Experiment() as experiment:
    for number in range({count}):
        experiment.new_process(f"p-{{number}}", command="sleep", args=[100000])
"""


DISPATCHER = """
from symphony import run_program
run_program("stacks")
"""


class Project:
    """A Pulumi project in a temporary folder; of ours a program in stacks/, for stacks called `ours.NAME`."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        is_ours = "symphony" in program
        (folder / "stacks").mkdir()
        (folder / "Pulumi.yaml").write_text("name: bench\nruntime: python\nstackConfigDir: stacks\n")
        (folder / "__main__.py").write_text(DISPATCHER if is_ours else program)
        (folder / "stacks" / "ours.py").write_text(program)
        (folder / "store").mkdir()
        self.env = {
            **os.environ,
            "SYMPHONY_HOME": str(folder / "home"),
            "PULUMI_HOME": str(folder / "pulumi"),
            "PULUMI_BACKEND_URL": f"file://{folder / 'store'}",
            "PULUMI_CONFIG_PASSPHRASE": "bench",
            "PYTHONPATH": str(HERE),
        }
        engine = binary.require()
        self.pulumi = str(engine.pulumi)
        floor = {
            **environment.defaults(),
            "PATH": environment.path_with(os.environ["PATH"], engine.pulumi.parent),
        }
        floor["PULUMI_PYTHON_CMD"] = sys.executable
        floor["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
        # As symphony does for its own: no checkpoints, no log.
        floor["PULUMI_SKIP_CHECKPOINTS"] = "true"
        silent = folder / "pulumi-of-the-floor"
        silent.mkdir()
        (silent / "logs").touch()
        self.engine_env = {**floor, **self.env, "PATH": floor["PATH"], "PULUMI_HOME": str(silent)}

    def symphony(self, *words: str) -> float:
        """One symphony command; how long it took."""
        return self._run([SYMPHONY, *words], self.env)

    def engine(self, *words: str) -> float:
        """One engine command; how long it took."""
        return self._run([self.pulumi, *words, "--non-interactive", "--color=never"], self.engine_env)

    def cold(self, stack: str) -> float:
        """A first `up` of the floor's program by the engine alone; how long it took."""
        self.engine("stack", "init", stack)
        return self.engine("up", "--yes", "--skip-preview", "--stack", stack)

    def _run(self, words: list[str], env: dict[str, str]) -> float:
        began = time.perf_counter()
        done = subprocess.run(
            words, cwd=self.folder, env=env, capture_output=True, text=True, timeout=DEADLINE, check=False
        )
        took = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return took


@contextmanager
def project(program: str) -> Iterator[Project]:
    """A project that is gone afterwards, with everything it started."""
    folder = Path(tempfile.mkdtemp(prefix="symphony-bench-"))
    made = Project(folder, program)
    try:
        yield made
    finally:
        # What runs on a cluster, ours.gke, goes before the cluster, gke.
        for stack in sorted((folder / "store/.pulumi/stacks/bench").glob("*.json"), reverse=True):
            if "symphony" in program:
                made.symphony("delete", stack.stem, "-y")
        shutil.rmtree(folder, ignore_errors=True)
