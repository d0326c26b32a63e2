"""An experiment in a program with other resources: neither a killed run nor a restart loses them."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from tests.sandbox import SYMPHONY, Sandbox, wait_for

# A bucket is a folder with a random name; it exists until it is deleted.
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
    def __init__(self, name, folder, opts=None):
        provider = base64.b64encode(pickle.dumps(Buckets())).decode()
        props = {"folder": folder, "__provider": provider}
        super().__init__("pulumi-python:dynamic/buckets:Bucket", name, props, opts)
"""
PROGRAM = """
from buckets import Bucket
Bucket("data", %r)
with Experiment() as e:
    for i in range(60):
        e.new_process(f"p-{i}", command=["sleep", "3600"])
"""


@pytest.mark.thorough
def test_a_killed_engine_loses_no_other_resource_of_the_program(sandbox: Sandbox) -> None:
    buckets = sandbox.home.parent / "buckets"
    buckets.mkdir()
    (sandbox.folder / "buckets.py").write_text(BUCKETS)
    sandbox.write(PROGRAM % str(buckets))

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


OF_A_PROCESS = """
from pulumi import ResourceOptions
from buckets import Bucket
with Experiment() as e:
    learner = e.new_process("learner", command=["sleep", "3600"])
Bucket("checkpoints", %r, ResourceOptions(parent=learner))
"""


def test_a_restart_keeps_a_resource_whose_parent_is_the_process(sandbox: Sandbox) -> None:
    buckets = sandbox.home.parent / "buckets"
    buckets.mkdir()
    (sandbox.folder / "buckets.py").write_text(BUCKETS)
    sandbox.write(OF_A_PROCESS % str(buckets))
    sandbox.symphony("up", "rl", "-y")
    before, trees = list(buckets.iterdir()), sandbox.trees()
    sandbox.symphony("restart", "rl", "learner", "-y")
    assert list(buckets.iterdir()) == before
    assert sandbox.trees() != trees


def test_a_restart_refuses_the_output_of_a_resource_that_only_up_creates(sandbox: Sandbox) -> None:
    buckets = sandbox.home.parent / "buckets"
    buckets.mkdir()
    (sandbox.folder / "buckets.py").write_text(BUCKETS)
    program = OF_A_PROCESS % str(buckets)
    sandbox.write(program)
    sandbox.symphony("up", "rl", "-y")
    trees = sandbox.trees()
    new = f'new = Bucket("new", {str(buckets)!r})\n'
    sandbox.write(program.replace("with", f"{new}with").replace('"3600"]', '"3600"], env={"BUCKET": new.id}'))
    assert "`symphony up`" in sandbox.symphony("restart", "rl", "learner", code=2).err
    assert sandbox.trees() == trees
