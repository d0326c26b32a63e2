"""Values of `secret_env` on a cluster: they are in a Secret and in the container only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.sandbox import Sandbox, wait_for

pytestmark = pytest.mark.kubernetes

Live = Callable[[str, str], list[dict[str, Any]]]
WORD = "hush-9c1d"
PROGRAM = """
import pulumi
with Experiment(secret_env={"FILE": "key.txt"}, secrets=["file.txt"]) as e:
    show = ["sh", "-c", "echo ${#FILE}-${#OUT}-$FILE | cut -c1-6; sleep 3600"]
    a = e.new_process("a", command=show, env={"OUT": pulumi.Output.secret("hush-9c1d-out")})
    e.new_process("b", command=["sleep", "3600"], env={"FILE": "plain"})
"""


def test_secret_env_reaches_the_container_leaks_nowhere_and_a_new_value_restarts_it(
    sandbox: Sandbox, stack: str, live: Live
) -> None:
    (sandbox.folder / "key.txt").write_text("hush-9c1d-one\n")
    (sandbox.folder / "file.txt").write_text("x\n")
    sandbox.write(PROGRAM)
    shown = [sandbox.symphony("plan", stack, "--json").out, sandbox.symphony("up", stack, "-y").out]
    result = wait_for(lambda: sandbox.symphony("logs", stack, "a").out, 30, "the process prints")
    assert "13-13-" in result
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in live("pods", stack)}
    (sandbox.folder / "key.txt").write_text("hush-9c1d-two\n")
    (sandbox.folder / "file.txt").write_text("y\n")
    plan = sandbox.symphony("plan", stack)
    assert "secret_env FILE: changed" in plan.out
    assert "secret file.txt changed" in plan.out
    shown += [plan.out, sandbox.symphony("up", stack, "-y").out, str(live("pods", stack))]
    shown += [sandbox.pulumi("stack", "export", "-s", stack).out]
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in live("pods", stack)}
    assert after["a"] != before["a"]
    assert after["b"] == before["b"], "its FILE is plain text of its own"
    assert sandbox.symphony("exec", stack, "a", "--", "sh", "-c", "echo $FILE").out == "hush-9c1d-two\n"
    (sandbox.folder / "key.txt").write_text("hush-9c1d-three\n")
    sandbox.symphony("restart", stack, "a")
    assert sandbox.symphony("exec", stack, "a", "--", "sh", "-c", "echo $FILE").out == "hush-9c1d-three\n"
    again = sandbox.symphony("up", stack, "-y").out
    assert "Nothing changes" in again
    assert [each for each in shown if WORD in each] == []
    # The kept code of a run has the program, which has the word itself, and links to files with secrets.
    files = [file for file in sandbox.home.rglob("*") if file.is_file() and not file.is_symlink()]
    assert {file.name for file in files if WORD.encode() in file.read_bytes()} == {"__main__.py"}


def test_a_secret_output_of_another_resource_is_planned_and_reaches_the_container(
    sandbox: Sandbox, stack: str
) -> None:
    sandbox.write(
        """
import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider
class Provider(ResourceProvider):
    def create(self, props):
        return CreateResult("1", {"value": "made"})
class Made(Resource, name="Made"):
    value: pulumi.Output[str]
    def __init__(self):
        super().__init__(Provider(), "made", {"value": None})
with Experiment() as e:
    e.new_process("a", command=["sleep", "3600"], env={"MADE": Made().value})
"""
    )
    plan = sandbox.symphony("plan", stack, "--json").json["plan"]
    assert plan["processes"][0]["secret_env"] == {"MADE": "[secret]"}
    sandbox.symphony("up", stack, "-y")
    assert sandbox.symphony("exec", stack, "a", "--", "sh", "-c", "echo $MADE").out == "made\n"
