"""SymphonyParser: command lines of users, with the real engine."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator

import pytest

from tests.sandbox import Ran, Sandbox, sandbox_in
from tests.terminal import terminal

PROGRAM = """
from symphony import Cluster, SymphonyParser, UserError

class MyParser(SymphonyParser):
    def create_cluster(self):
        return Cluster.new("tmux")

    def setup(self):
        super().setup()
        parser = self.add_subparser("create-one", aliases=["c"])
        parser.add_argument("name")
        parser.add_argument("--count", type=int, default=1)
        self.add_subparser("doctor")
        self.add_subparser("fail")
        parser = self.add_subparser("find")
        self._add_component_arg(parser)
        self._add_experiment_name(parser, required=False)
        self.add_dry_run(parser)
        self.get_subparser("delete-batch").add_argument("--mine", action="store_true")

    def action_create_one(self, args):
        '''Start processes that sleep.

        As many as are counted.
        '''
        experiment = self.cluster.new_experiment(args.name)
        for number in range(args.count):
            experiment.new_process(f"p{number}", cmds=[f"echo this is {number}", "sleep 600"])
        print(self.cluster.launch(experiment))

    def action_doctor(self, args):
        print("all is well")

    def action_fail(self, args):
        raise UserError("this cannot be", remedy="Do something else")

    def action_list_processes(self, args):
        name = self._get_experiment(args)
        print("mine", name)
        print(self._print_experiment(self.cluster.describe_experiment(name)))

    def action_delete(self, args):
        print("the models are kept")
        return super().action_delete(args)

    def action_find(self, args):
        name = self._get_experiment(args)
        print(self._interactive_find_process(args.component_name, name), args.dry_run, args.remainder)
        return self.action_log(args)

MyParser().main()
"""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with sandbox_in(tmp_path_factory.mktemp("parser")) as made:
        (made.folder / "Pulumi.yaml").unlink()
        (made.folder / "mine.py").write_text(PROGRAM)
        (made.folder / "kube.py").write_text(PROGRAM.replace('Cluster.new("tmux")', 'Cluster.new("kube")'))
        yield made


def mine(sandbox: Sandbox, *words: str, code: int = 0) -> Ran:
    return sandbox.run([sys.executable, "mine.py", *words], code=code)


@pytest.mark.thorough
def test_own_commands_and_those_of_symphony_work(sandbox: Sandbox) -> None:
    assert "rl is up: 2 of 2 running" in mine(sandbox, "c", "rl", "--count", "2").out
    own = mine(sandbox, "p", "r").out.splitlines()
    assert own[:2] == ["mine rl", "Group  Name  Ready  Restarts  State"]
    assert [line.split()[0] for line in own[2:]] == ["p0", "p1"]
    assert mine(sandbox, "l", "rl", "p1").out == "this is 1\n"
    # The newest launch is the current experiment; an action gets the arguments of its own parser.
    result = mine(sandbox, "find", "p1", "-dr", "--", "a", "-b").out
    assert result == "(None, 'p1') True ['a', '-b']\nthis is 1\n"
    kube = [sys.executable, "kube.py"]
    assert "No experiments" in sandbox.run([*kube, "ls"]).out
    refused = sandbox.run([*kube, "d", "rl", "-f"], code=2).err
    assert "rl runs on tmux, and this program works on kubernetes" in refused
    assert len(sandbox.trees()) == 2
    assert "Would delete" in mine(sandbox, "db", "/^r.$/", "-dr").out
    assert "rl" in mine(sandbox, "lse").out
    # Arguments after `--` belong to the command.
    assert mine(sandbox, "x", "rl", "p0", "--", "sh", "-c", "echo $0; exit 3", "-f", code=3).out == "-f\n"
    mine(sandbox, "d", "rl", "-f")
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_on_a_terminal_it_shows_plan_and_progress_and_asks(sandbox: Sandbox) -> None:
    with terminal(sandbox, [sys.executable, "mine.py", "create-one", "shown"]) as seen:
        assert seen.ends(60) == 0
        assert "shown on tmux" in seen.history()
        assert "p0" in seen.history()
    with terminal(sandbox, [sys.executable, "mine.py", "d", "show"]) as seen:
        assert "the models are kept" in seen.shows("stop 1 process")
        seen.type("y", "Enter")
        assert seen.ends(60) == 0
    assert sandbox.trees() == {}


def test_an_own_command_overrides_one_of_symphony(sandbox: Sandbox) -> None:
    assert mine(sandbox, "doctor").out == "all is well\n"


def test_help_lists_own_commands_and_those_of_symphony(sandbox: Sandbox) -> None:
    output = mine(sandbox, "--help").out
    assert "delete-batch  Delete several experiments, by name or pattern. Also: db." in output
    own = [line.split() for line in output.partition("Commands of mine.py:\n")[2].splitlines()]
    assert own[0] == ["create-one,", "c", "Start", "processes", "that", "sleep."]
    assert own[-1][:2] == ["delete-batch,", "db"]
    assert "As many as are counted." in mine(sandbox, "c", "--help").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fail",), "symphony: this cannot be. Do something else."),
        pytest.param(("creat",), "there is no command 'creat'", marks=pytest.mark.thorough),
        pytest.param(("c", "rl", "--count", "x"), "invalid int value: 'x'", marks=pytest.mark.thorough),
        (("c", "模"), "模"),
    ],
    ids=["own error", "unknown", "argument", "plan"],
)
def test_a_usage_error_exits_with_2(sandbox: Sandbox, words: tuple[str, ...], message: str) -> None:
    assert message in mine(sandbox, *words, code=2).err


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def setup(self): self.add_subparser('go')", "Define the method action_go(self, args)"),
        (
            "def setup(self): self.add_subparser('go')\n    def action_go(self, args): self.cluster",
            "Define create_cluster(self) in it",
        ),
    ],
    ids=["no action", "no cluster"],
)
def test_an_incomplete_parser_is_a_one_line_error(sandbox: Sandbox, body: str, message: str) -> None:
    head = "from symphony.commandline import SymphonyParser\nclass Half(SymphonyParser):"
    (sandbox.folder / "half.py").write_text(f"{head}\n    {body}\nHalf().main()\n")
    ran = sandbox.run([sys.executable, "half.py", "go"], code=2)
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1


PREFIXED = """
from symphony import Cluster, SymphonyConfig, SymphonyParser

class Mine(SymphonyParser):
    def create_cluster(self):
        return Cluster.new("tmux")

    def setup(self):
        super().setup()
        SymphonyConfig().set_username("sarah")
        self.add_subparser("create")

    def action_create(self, args):
        experiment = self.create_cluster().new_experiment("foo")
        experiment.new_process("a", command=["sleep", "3600"])
        print(self.create_cluster().launch(experiment))

if __name__ == "__main__":
    Mine().main()
"""


@pytest.mark.thorough
def test_names_work_without_username_prefix_and_a_killed_session_can_be_relaunched(
    sandbox: Sandbox,
) -> None:
    (sandbox.folder / "sarah.py").write_text(PREFIXED)

    def sarah(*words: str, code: int = 0) -> str:
        return sandbox.run([sys.executable, "sarah.py", *words], code=code).out

    assert "sarah-foo is up" in sarah("create")
    sandbox.tmux().kill_session("sarah-foo")
    assert "sarah-foo is up: 1 of 1" in sarah("create")
    assert "running:" in sarah("p", "foo")
    # An ended experiment of the bare name must not hide it.
    ended = sandbox.home / "runs"
    (stack,) = ended.rglob("sarah-foo")
    shutil.copytree(stack, stack.with_name("foo"))
    assert "running:" in sarah("p", "foo")
    assert '"running"' in sarah("p", "--json", "foo")
    assert "Deleted sarah-foo" in sarah("d", "foo", "-y")
    sarah("create")
    assert "Deleted sarah-foo" in sarah("db", "foo", "-f")
    assert sandbox.trees() == {}
