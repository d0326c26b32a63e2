"""An experiment beside other resources of the user's: a run that is killed loses none of those."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess

import psutil
import pytest

from tests.sandbox import SYMPHONY, Sandbox, wait_for

# A bucket is a folder with a name nobody knows before; it exists as long as nobody deletes it.
BUCKETS = """
import base64, os, pickle, shutil, uuid
import pulumi
from pulumi.dynamic import CreateResult, ResourceProvider

class Buckets(ResourceProvider):
    serialize_as_secret_always = False

    def create(self, props):
        name = uuid.uuid4().hex
        os.makedirs(os.path.join(props["folder"], name))
        return CreateResult(name, props)

    def delete(self, id, props):
        shutil.rmtree(os.path.join(props["folder"], id))

class Bucket(pulumi.CustomResource):
    def __init__(self, name, folder):
        provider = base64.b64encode(pickle.dumps(Buckets())).decode()
        props = {"folder": folder, "__provider": provider}
        super().__init__("pulumi-python:dynamic/buckets:Bucket", name, props)
"""
PROGRAM = """
from buckets import Bucket
Bucket("data", %r)
with Experiment() as e:
    for i in range(60):
        e.new_process(f"p-{i}", command=["sleep", "3600"])
"""


@pytest.mark.thorough
@pytest.mark.parametrize("dispatched", [False, True], ids=["program", "dispatcher"])
def test_a_killed_engine_loses_no_bucket(sandbox: Sandbox, dispatched: bool) -> None:
    buckets = sandbox.home.parent / "buckets"
    buckets.mkdir()
    (sandbox.folder / "buckets.py").write_text(BUCKETS)
    if dispatched:
        (sandbox.folder / "stacks").mkdir()
        (sandbox.folder / "__main__.py").write_text(
            "from symphony import run_program\nrun_program('stacks')\n"
        )
    file = "stacks/rl.py" if dispatched else "__main__.py"
    sandbox.write(PROGRAM % str(buckets), file)

    process = sandbox.start([str(SYMPHONY), "up", "rl", "-y"], start_new_session=True)
    wait_for(
        lambda: list(buckets.iterdir()) and len(sandbox.trees()) > 10, 60, "the bucket and some live", 0.0
    )
    (engine,) = [each for each in psutil.Process(process.pid).children() if each.name() == "pulumi"]
    os.kill(engine.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    again = sandbox.symphony("up", "rl", "-y")
    assert "60 of 60 running" in again.out
    assert len(list(buckets.iterdir())) == 1
    assert len(sandbox.trees()) == 60
    sandbox.symphony("delete", "rl", "-y")
    assert list(buckets.iterdir()) == []
    assert sandbox.trees() == {}


# What makes the buckets cannot be told from the text; they come in the middle of the experiment.
DISGUISED = """
import importlib
buckets = importlib.import_module("buc" + "kets")
with Experiment() as e:
    for i in range(20):
        e.new_process(f"p-{i}", command=["sleep", "3600"])
        buckets.Bucket(f"b-{i}", %r)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_of_twenty_killed_runs_none_loses_a_bucket(sandbox: Sandbox) -> None:
    buckets = sandbox.home.parent / "buckets"
    buckets.mkdir()
    (sandbox.folder / "buckets.py").write_text(BUCKETS)
    sandbox.write(DISGUISED % str(buckets))
    whole = sandbox.symphony("up", "rl", "-y").seconds
    assert len(list(buckets.iterdir())) == 20
    sandbox.symphony("delete", "rl", "-y")
    state = sandbox.home / "state" / ".pulumi" / "stacks" / "sandbox" / "rl.json"
    chance = random.Random(20)
    reached = 0
    for _ in range(20):
        process = sandbox.start([str(SYMPHONY), "up", "rl", "-y"], start_new_session=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=chance.uniform(0, whole))
        for pid in sandbox.engines():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=30)
        wait_for(lambda: not sandbox.engines(), 20, "the engine is gone")
        latest = json.loads(state.read_text())["checkpoint"].get("latest") or {} if state.exists() else {}
        known = {each.get("id") for each in latest.get("resources") or ()}
        begun = len(latest.get("pending_operations") or ())
        lost = {each.name for each in buckets.iterdir()} - known
        assert len(lost) <= begun, f"{len(lost)} buckets in no state, {begun} begun"
        reached += bool(list(buckets.iterdir()))
        for name in lost:
            (buckets / name).rmdir()
        sandbox.symphony("delete", "rl", "-y", code=None)
        assert list(buckets.iterdir()) == []
    assert reached > 3, "the kills came too early"
