"""Values of secret_env, and of env where they are secret: no file and no screen but the process has them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.desk import Desk, desk_in, wait_for

# Each value holds the word, so that one search finds any of them.
WORD = "hush-5f2e"
SHOW = ["sh", "-c", "test ${#FILE} = 14 && test ${#OUT} = 13 && test ${#GOT} = 13 && echo all; sleep 3600"]
PROGRAM = f"""
import pulumi
c = pulumi.Config()
with Experiment(secret_env={{"FILE": "key.txt"}}) as e:
    a = e.new_process("a", command={SHOW!r}, env={{"OUT": pulumi.Output.secret("hush-5f2e-out")}})
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


@pytest.fixture
def desk(tmp_path: Path):
    with desk_in(tmp_path) as made:
        yield made


def files_that_tell(folder: Path) -> set[str]:
    """The files that hold a value, by their names."""
    found: set[str] = set()
    for file in folder.rglob("*"):
        if file.is_file() and WORD.encode() in file.read_bytes():
            found.add(file.name)
    return found


def test_no_file_no_screen_and_no_argument_list_holds_a_value(desk: Desk) -> None:
    (desk.folder / "key.txt").write_text("hush-5f2e-file\n")
    desk.write(PROGRAM)
    desk.pulumi("stack", "init", "rl")
    desk.pulumi("config", "set", "--secret", "token", "hush-5f2e-set", "-s", "rl")
    plan = desk.symphony("plan", "rl", "--json")
    up = desk.symphony("up", "rl", "-y")
    wait_for(lambda: "all" in desk.symphony("logs", "rl", "a").out, 20, "the process has all three")
    # What a supervisor starts its process with again, for nobody else to read.
    private = list(desk.home.rglob("secrets.sh"))
    assert files_that_tell(desk.home) == {"secrets.sh"}
    assert {file.stat().st_mode & 0o777 for file in private} == {0o600}
    assert files_that_tell(desk.home.parent / "pulumi-home") == set()
    listed = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    (desk.folder / "key.txt").write_text("hush-5f2e-next\n")
    screens = [
        plan.out,
        up.out,
        listed,
        desk.pulumi("stack", "export", "-s", "rl").out,
        desk.symphony("plan", "rl", "--json").out,
        desk.symphony("process", "rl", "--json").out,
        desk.symphony("why", "rl", "a", "--json").out,
    ]
    assert [each for each in screens if WORD in each] == []
    assert WORD in desk.symphony("exec", "rl", "a", "--", "printenv", "FILE").out
    desk.symphony("delete", "rl", "-y")
    assert files_that_tell(desk.home) == set()


@pytest.mark.thorough
def test_a_value_that_changes_restarts_its_process_and_no_other(desk: Desk) -> None:
    desk.write(
        PROGRAM.replace('with Experiment(secret_env={"FILE": "key.txt"})', "with Experiment()").replace(
            "a = e.new_process(", 'a = e.new_process(secret_env={"FILE": "key.txt"}, name='
        )
    )
    (desk.folder / "key.txt").write_text("hush-5f2e-file\n")
    desk.pulumi("stack", "init", "rl")
    desk.pulumi("config", "set", "--secret", "token", "hush-5f2e-set", "-s", "rl")
    desk.symphony("up", "rl", "-y")
    before = desk.processes("rl")
    assert "Nothing changes" in desk.symphony("up", "rl", "-y").out
    (desk.folder / "key.txt").write_text("hush-5f2e-next\n")
    changes = {each["path"]: each for each in desk.symphony("plan", "rl", "--json").json["changes"]}
    assert changes["a"]["why"] == ["secret_env FILE: changed"]
    assert changes["lines"]["kind"] == "keep"
    desk.symphony("up", "rl", "-y")
    after = desk.processes("rl")
    assert after["a"]["pid"] != before["a"]["pid"]
    assert after["lines"]["pid"] == before["lines"]["pid"]
    assert desk.symphony("exec", "rl", "a", "--", "printenv", "FILE").out == "hush-5f2e-next\n"


@pytest.mark.thorough
def test_what_only_the_run_makes_is_planned_and_arrives(desk: Desk) -> None:
    desk.write(MADE_BY_THE_RUN)
    assert desk.symphony("plan", "rl", "--json").json["plan"]["processes"][0]["secret_env"] == {
        "MADE": "[secret]"
    }
    desk.symphony("up", "rl", "-y")
    wait_for(lambda: "13" in desk.symphony("logs", "rl", "a").out, 20, "the value is there")
    assert "Nothing changes" in desk.symphony("up", "rl", "-y").out


@pytest.mark.thorough
def test_a_deletion_takes_along_every_copy_of_what_was_plain(desk: Desk) -> None:
    desk.write(
        'with Experiment() as e: e.new_process("a", command=["sleep", "3600"], env={"A": "hush-5f2e"})'
    )
    desk.symphony("up", "rl", "-y")
    desk.write('with Experiment() as e: e.new_process("a", command=["sleep", "3600"])')
    desk.symphony("up", "rl", "-y")
    assert files_that_tell(desk.home / "state")
    desk.symphony("delete", "rl", "-y")
    assert files_that_tell(desk.home) == set()
