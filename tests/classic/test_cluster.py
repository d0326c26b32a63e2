"""Scripts written for the original Symphony, with the real engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox import Sandbox, sandbox_in

# The tmux program of the original's README, with its names and calls.
SCRIPT = """
from symphony.engine import Cluster, SymphonyConfig
from symphony.tmux import TmuxCluster
SymphonyConfig().set_username("ada")
SymphonyConfig().set_experiment_folder(%(folder)r)
cluster = Cluster.new("tmux", preamble_cmds=["export FROM_CLUSTER=yes"])
exp = cluster.new_experiment("rand")
alice = exp.new_process("alice", cmds=["echo $FROM_CLUSTER $GREETING", "sleep 3600"])
group = exp.new_process_group("group")
bob = group.new_process("bob", cmds=["echo at $SYMPH_EXAMPLE_ADDR", "sleep 3600"])
alice.binds("example")
bob.connects("example")
alice.set_env("GREETING", "hello")
"""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Run a script that launches an experiment, in a folder without a project."""
    with sandbox_in(tmp_path_factory.mktemp("classic")) as made:
        (made.folder / "Pulumi.yaml").unlink()
        look = "cluster.launch(exp, dry_run=True); assert cluster.list_experiments() == []"
        script(made, f"{look}; cluster.launch(exp)")
        yield made


def script(sandbox: Sandbox, more: str) -> str:
    return sandbox.python(SCRIPT % {"folder": str(sandbox.home.parent / "saved")} + more).out


def test_launch_starts_the_experiment_and_saves_it(sandbox: Sandbox) -> None:
    assert set(sandbox.trees()) == {"ada-rand/alice", "ada-rand/group/bob"}
    assert "running" in sandbox.symphony("process", "ada-rand").out
    assert (sandbox.home.parent / "saved" / "ada-rand").is_dir()


@pytest.mark.thorough
def test_dry_run_returns_the_plan_and_prints_nothing(sandbox: Sandbox) -> None:
    result = script(sandbox, "plan = cluster.launch(exp, force=True, dry_run=True); print('>', plan)")
    head, *rows = result.splitlines()
    assert head == "> ada-rand on tmux"
    assert sorted(row.split(":")[0].strip() for row in rows) == ["alice", "group/bob"]


def test_experiment_settings_override_cluster_settings(sandbox: Sandbox) -> None:
    script(
        sandbox,
        "spec = cluster.new_experiment('more', range(7000, 7100), ['key.txt'], ['true'], 'there').spec\n"
        "assert spec.port_range == (7000, 7099) and spec.secrets == ('key.txt',), spec\n"
        "assert spec.preamble_cmds == ('true',) and spec.start_dir == 'there', spec\n"
        "spec = cluster.new_experiment('ada-more', env={'A': 1}).spec\n"
        "assert spec.name == 'ada-more' and spec.preamble_cmds == ('export FROM_CLUSTER=yes',), spec\n"
        "assert isinstance(cluster, TmuxCluster) and not isinstance(Cluster.new('kube'), TmuxCluster)",
    )


@pytest.mark.thorough
def test_describe_and_list_methods(sandbox: Sandbox) -> None:
    result = script(
        sandbox,
        "d = cluster.describe_experiment('rand')\n"
        "assert set(d) == {None, 'group'} and set(d[None]) == {'alice'} and set(d['group']) == {'bob'}, d\n"
        "assert d['group']['bob']['State'].startswith('running'), d\n"
        "assert cluster.describe_process_group('rand', 'group')['bob']['Ready'] == 1\n"
        "assert cluster.describe_process('rand', 'bob', 'group')['Restarts'] == 0\n"
        "assert cluster.list_experiments() == ['ada-rand']\n"
        "assert set(cluster.describe_process_group('rand', None)) == {'alice'}\n"
        "assert set(cluster.describe_experiment(None)) == set(cluster.describe_experiment('rand'))\n"
        "bob = cluster.describe_process('rand', process_name='bob', process_group_name='group')\n"
        "assert set(bob) == set(d['group']['bob']) and bob['Ready'] == d['group']['bob']['Ready']\n"
        "assert cluster.prefix_username('x') == 'ada-x'\n"
        "assert cluster.fuzzy_match_experiment('rand') == (['ada-rand'], True)\n"
        "assert cluster.fuzzy_match_experiment('ran') == (['ada-rand'], False)\n"
        "assert cluster.fuzzy_match_process('bo', 'rand') == ([('group', 'bob')], False)\n"
        "assert cluster.fuzzy_match_process('alice', 'rand') == ([(None, 'alice')], True)\n"
        "assert cluster.find_process('rand', 'bob') == ['group']\n"
        "assert cluster.find_process('rand', 'alice') == [None]\n"
        "url = cluster.external_service('rand', service_name='example')\n"
        "assert url == cluster.external_url('rand', 'example')\n"
        "assert Cluster.new('kube').list_experiments() == []\n"
        "copy = type(exp).load_yaml_str(exp.dump_yaml_str())\n"
        "assert copy.spec == exp.spec == type(exp).load_json_str(exp.dump_json_str()).spec\n"
        "exp.dump_yaml_file('e.yaml'); assert type(exp).load_yaml_file('e.yaml').spec == exp.spec\n"
        "print(cluster.external_url('rand', 'example'))",
    )
    assert result.strip().startswith("127.0.0.1:")


def test_exec_transfer_and_current_experiment(sandbox: Sandbox) -> None:
    (sandbox.folder / "note").write_text("hello")
    result = script(
        sandbox,
        "from pathlib import Path\n"
        "words = ['sh', '-c', 'echo $SYMPH_EXAMPLE_ADDR; exit 3']\n"
        "code = cluster.exec_command('rand', 'bob', words, 'group')\n"
        "assert code == 3, code\n"
        "assert cluster.exec_command('rand', 'alice', 'test \"a b\" = \"a b\"') == 0\n"
        f"there = {str(sandbox.home.parent / 'copied')!r}\n"
        "cluster.transfer_file('rand', Path('note'), f'alice:{there}')\n"
        "cluster.transfer_file('rand', f'group/bob:{there}', 'back')\n"
        "assert Path('back').read_text() == 'hello'\n"
        "cluster.transfer_file('rand', 'note', there + '2', dest_process='alice')\n"
        "cluster.transfer_file('rand', there + '2', 'again', src_process='bob', src_process_group='group')\n"
        "assert Path('again').read_text() == 'hello'\n"
        "cluster.set_experiment('rand'); assert cluster.current_experiment() == 'ada-rand'",
    )
    assert result.startswith("127.0.0.1:")


@pytest.mark.thorough
def test_get_log(sandbox: Sandbox) -> None:
    result = script(
        sandbox,
        "print(cluster.get_log('rand', 'alice', tail=-1))\n"
        "print(cluster.get_log('rand', process_name='bob', process_group='group', tail=1, print_logs=True))\n"
        "assert list(cluster.get_log(exp='rand', process='alice', since=3600, tail=5)) == ['yes hello']\n"
        "assert list(cluster.get_log('rand', 'alice', since=0)) == ['yes hello']\n"
        "assert list(cluster.get_log('rand', 'alice', since=0.01)) == []",
    )
    assert "['yes hello']" in result
    assert "at 127.0.0.1:" in result


# Wrong calls of a script, and their errors.
MISTAKES = [
    ("cluster.launch(exp)", "experiment ada-rand exists"),
    ("Cluster.new('kube', pod_security=['x'])", "pod_security=['x']: must be a non-empty string"),
    ("Cluster.new('nomad')", "tmux, kubernetes"),
    ("cluster.delete('nobody')", "no experiment"),
    ("cluster.describe_process('rand', 'alicia')", "alice"),
    ("cluster.external_url('rand', 'exampel')", "example"),
    ("cluster.exec_command('rand', 'alicia', ['true'])", "alice"),
    ("cluster.exec_command('rand', 'alice', [])", "exec needs a command to run"),
    ("cluster.exec_command('rand', 'alice', ['a\\0b'])", "NUL"),
    ("cluster.transfer_file('rand', 'a', 'b')", "PROCESS:PATH"),
    ("cluster.login('rand', 'alice')", "needs a terminal"),
    ("cluster.set_experiment('nobody')", "no experiment"),
    ("Cluster.new('tmux', oops=1)", "The options are: preamble_cmds, start_dir, server_name"),
    ("TmuxCluster(oops=1)", 'TmuxCluster has no option "oops"'),
    ("Cluster.new('kube', server_name='x')", 'KubeCluster has no option "server_name"'),
    ("Cluster.new('kube', contex='x')", "kubeconfig, context, image, namespace, pod_security, expose"),
    ("Cluster.new('kube', kubeconfig='a: b\\nc: d')", "Write it to a file and give its path"),
    ("Cluster.new('kube', image=7)", "image=7: must be a non-empty string"),
    ("Cluster.new(['tmux'])", "tmux, kubernetes"),
    ("cluster.launch('rand')", "launch() got a str, not an experiment"),
    ("cluster.delete(exp)", "is not the name of an experiment"),
    ("cluster.delete(None)", "None is not the name of an experiment"),
    (
        "Cluster.new('kube').describe_experiment('ada-rand')",
        "ada-rand runs on tmux",
    ),
    ("cluster.describe_process('rand', None)", "None is not the name of a process"),
    ("cluster.get_log(exp='rand', process='alice', since=[1])", "since=[1] is not a duration"),
    ("cluster.get_log('rand', 'alice', since='soon')", "is not a duration"),
    ("cluster.get_log('rand', 'alice', since='²')", "is not a duration"),
    ("cluster.get_log('rand', 'alice', tail=-2)", "tail=-2 is not a number of lines"),
    *(
        (f"exp.new_process({name!r}, cmds=['true'])", "is not a valid name of a process")
        for name in ("模", "", "a:b", None)
    ),
    *(
        (f"cluster.new_experiment({name!r})", "is not a valid name of an experiment")
        for name in ("", "a:b", None)
    ),
]
# Each call in a script of its own.
EACH = """
from symphony.errors import SymphonyError
for number, call in enumerate(%(calls)r):
    names = {}
    exec(%(script)r, names)
    try:
        exec(call, names)
    except SymphonyError as error:
        print(f"refused {number}:", error, *error.details)
"""


def test_mistakes_raise_symphony_errors_and_change_nothing(sandbox: Sandbox) -> None:
    before = sandbox.trees()
    calls = [call for call, _ in MISTAKES]
    script = SCRIPT % {"folder": str(sandbox.home.parent / "saved")}
    answers = sandbox.python(EACH % {"calls": calls, "script": script}).out.split("refused ")[1:]
    values = {int(number): text for number, _, text in (answer.partition(": ") for answer in answers)}
    wanted = {number: result for number, (_, result) in enumerate(MISTAKES)}
    missed = {calls[i]: values.get(i) for i, result in wanted.items() if result not in values.get(i, "")}
    assert missed == {}
    assert sandbox.trees() == before


@pytest.mark.thorough
def test_launch_with_force_updates_and_delete_removes(sandbox: Sandbox) -> None:
    before = sandbox.trees()
    script(sandbox, "alice.set_env('GREETING', 'bye'); cluster.launch(exp, force=True)")
    after = sandbox.trees()
    assert after["ada-rand/group/bob"] == before["ada-rand/group/bob"]
    assert after["ada-rand/alice"] != before["ada-rand/alice"]
    script(sandbox, "cluster.delete_batch(['rand'])")
    # A deleted experiment may be launched again, although it was saved.
    script(sandbox, "cluster.launch(exp); cluster.delete(exp.name)")
    assert sandbox.trees() == {}
    assert sandbox.servers() == []
