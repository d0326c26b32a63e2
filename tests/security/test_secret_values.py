"""Values of secret_env and secret values in env reach only the process: no file or screen shows them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.sandbox import Sandbox, wait_for

# Each value contains this word, so that one search finds all of them.
WORD = "hush-5f2e"
SHOW = ["sh", "-c", "test ${#FILE} = 14 && test ${#OUT} = 13 && test ${#GOT} = 13 && echo all; sleep 3600"]
PROGRAM = f"""
import pulumi
c = pulumi.Config()
with Experiment() as e:
    a = e.new_process("a", command={SHOW!r}, secret_env={{"FILE": "key.txt"}})
    a.set_env("OUT", pulumi.Output.secret("hush-5f2e-out"))
    a.set_env("GOT", c.require("token"))
    e.new_process("lines", ["sleep 3600"], env={{"GOT": c.require_secret("token")}}).restart_policy("Always")
"""
MADE_BY_THE_RUN = """
import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider
class Provider(ResourceProvider):
    def create(self, props):
        return CreateResult("1", {"value": "hush-5f2e-out"})
class Made(Resource, name="Made"):
    value: pulumi.Output[str]
    def __init__(self):
        super().__init__(Provider(), "made", {"value": None})
with Experiment() as e:
    e.new_process("a", command=["sh", "-c", "echo ${#MADE}; sleep 3600"], env={"MADE": Made().value})
"""


def files_containing_secrets(folder: Path) -> set[str]:
    """Return the names of the files that contain a value."""
    result: set[str] = set()
    for file in folder.rglob("*"):
        # The kept code of a run includes the program, which contains a value, and links to secret files.
        if file.parts[-2:] == ("code", "__main__.py") or file.is_symlink() or not file.is_file():
            continue
        if WORD.encode() in file.read_bytes():
            result.add(file.name)
    return result


@pytest.mark.thorough
def test_secret_values_are_in_no_file_screen_or_command_line(sandbox: Sandbox) -> None:
    """A changed value restarts only its process."""
    (sandbox.folder / "key.txt").write_text("hush-5f2e-file\n")
    sandbox.write(PROGRAM)
    sandbox.pulumi("stack", "init", "rl")
    sandbox.pulumi("config", "set", "--secret", "token", "hush-5f2e-set", "-s", "rl")
    plan = sandbox.symphony("plan", "rl", "--json")
    up = sandbox.symphony("up", "rl", "-y")
    wait_for(lambda: "all" in sandbox.symphony("logs", "rl", "a").out, 20, "the process has all three")
    # A supervisor restarts its process with this file, which only its user can read.
    private = list(sandbox.home.rglob("secrets.sh"))
    assert files_containing_secrets(sandbox.home) == {"secrets.sh"}
    assert {file.stat().st_mode & 0o777 for file in private} == {0o600}
    assert files_containing_secrets(sandbox.home.parent / "pulumi-home") == set()
    listed = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    before = sandbox.processes("rl")
    (sandbox.folder / "key.txt").write_text("hush-5f2e-next\n")
    changed = sandbox.symphony("plan", "rl", "--json")
    changes = {each["path"]: each for each in changed.json["changes"]}
    assert changes["a"]["why"] == ["secret_env FILE: changed"]
    assert changes["lines"]["kind"] == "keep"
    again = sandbox.symphony("up", "rl", "-y")
    after = sandbox.processes("rl")
    assert [after[path]["pid"] == before[path]["pid"] for path in ("a", "lines")] == [False, True]
    assert "Nothing changes" in sandbox.symphony("up", "rl", "-y").out
    screens = [
        plan.out,
        changed.out,
        again.out,
        up.out,
        listed,
        sandbox.pulumi("stack", "export", "-s", "rl").out,
        sandbox.symphony("process", "rl", "--json").out,
        sandbox.symphony("why", "rl", "a", "--json").out,
    ]
    assert [each for each in screens if WORD in each] == []
    assert sandbox.symphony("exec", "rl", "a", "--", "printenv", "FILE").out == "hush-5f2e-next\n"
    sandbox.symphony("delete", "rl", "-y", "--forget")
    assert files_containing_secrets(sandbox.home) == set()


@pytest.mark.thorough
def test_a_secret_output_of_another_resource_is_planned_and_reaches_the_process(sandbox: Sandbox) -> None:
    sandbox.write(MADE_BY_THE_RUN)
    assert sandbox.symphony("plan", "rl", "--json").json["plan"]["processes"][0]["secret_env"] == {
        "MADE": "[secret]"
    }
    sandbox.symphony("up", "rl", "-y")
    wait_for(lambda: "13" in sandbox.symphony("logs", "rl", "a").out, 20, "the value is there")
    assert "Nothing changes" in sandbox.symphony("up", "rl", "-y").out


@pytest.mark.thorough
def test_delete_forget_removes_every_copy_of_plain_env_values(sandbox: Sandbox) -> None:
    sandbox.write(
        'with Experiment() as e: e.new_process("a", command=["sleep", "3600"], env={"A": "hush-5f2e"})'
    )
    sandbox.symphony("up", "rl", "-y")
    sandbox.write('with Experiment() as e: e.new_process("a", command=["sleep", "3600"])')
    sandbox.symphony("up", "rl", "-y")
    assert files_containing_secrets(sandbox.home / "state")
    sandbox.symphony("delete", "rl", "-y", "--forget")
    assert files_containing_secrets(sandbox.home) == set()
