"""Each mistake in a program is one problem with its lines and a remedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from symphony.errors import UserError
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.build import build_plan
from tests.plans import problems

MARK = "# <-"


@dataclass(frozen=True)
class Mistake:
    """A program with one mistake on the marked lines, and words of the problem and its remedy.

    It is planned for a backend, with changes to its limits; `labels` is Kubernetes with DNS labels as names.
    """

    lines: Sequence[str]
    words: Sequence[str]
    backend: str = "tmux"
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def program(self) -> str:
        first = () if self.lines[0].startswith("exp =") else ('exp = Experiment("rl")',)
        return "\n".join((*first, *self.lines))


A, B = 'a = exp.new_process("a", ["x"])', 'b = exp.new_process("b", ["x"])'
GROUP = 'group = exp.new_process_group("g")'
MEMBER = 'member = group.new_process("a", ["x"])'
LETTERS = 'use letters, digits, "-" and "_"'
LABELS = {"names_are_dns_labels": True, "defaults": {"image": "i"}}
RESERVED = {"reserved": {"PWD": "the shell sets it"}}

NAMES = [
    *(
        Mistake([f"exp.new_process({name!r}, ['x'])  # <-"], [f'process "{shown}"', remedy])
        for name, shown, remedy in (
            ("a.b", "a.b", f'{LETTERS}, such as "a-b"'),
            ("$(reboot)", "$(reboot)", f'{LETTERS}, such as "reboot"'),
            ("é t", "é t", f'{LETTERS}, such as "e-t"'),
            ("日本", "日本", LETTERS),
            ("a\x1b[31m", r"a\x1b[31m", '"a-31m"'),
            ("a\0", r"a\x00", LETTERS),
            ("", "", "at least one letter"),
            ("x" * 64, "x" * 59 + "…", "at most 63"),
        )
    ),
    Mistake(['group = exp.new_process_group("a/b")  # <-', MEMBER], ['group "a/b"', '"a-b"']),
    Mistake(["exp.new_process('__', ['x'])  # <-"], ['process "__"', LETTERS], "labels"),
    *(
        Mistake([f"exp = Experiment({name!r})  # <-", A], ["experiment", "at most 63"])
        for name in ("", "a b", "x" * 64)
    ),
    Mistake(
        ['exp = Experiment("rl")  # <-', A],
        ['"My Stack"', '"My-Stack"'],
        changes={"physical_name": "My Stack"},
    ),
    Mistake(['exp = Experiment("rl")  # <-', GROUP], ['"rl" has no process', "new_process("]),
    Mistake([A, f"{GROUP}  # <-"], ['group "g" has no process', "new_process("]),
    Mistake([f"{A}  # <-", B, f"{A}  # <-"], ['process "a"', "twice", "another name"]),
    Mistake(["for i in range(2):", "    exp.new_process('a', ['x']).binds('r')  # <-"], ['"a"', "twice"]),
    Mistake([GROUP, f"{MEMBER}  # <-", f"{MEMBER}  # <-"], ['process "a"', "twice", '"g"']),
    Mistake([f"{GROUP}  # <-", MEMBER, f"{GROUP}  # <-", MEMBER], ['group "g"', "twice"]),
    Mistake(['exp.new_process("g", ["x"])  # <-', f"{GROUP}  # <-", MEMBER], ['group "g"', "process"]),
    Mistake(
        ['exp.new_process("a_0", ["x"])  # <-', 'exp.new_process("A-0", ["x"])  # <-'],
        ['"A-0"', '"a_0"', "only in -, _ or case", "another name"],
    ),
]

SERVICES = [
    Mistake(
        [A, 'a.binds("replay-server")', B, 'b.connects("replay-sever")  # <-'], ["b ", '"replay-server"?']
    ),
    Mistake([A, 'a.binds("replay", "params")', B, 'b.connects("zzz")  # <-'], ['"zzz"', "params, replay"]),
    Mistake([A, 'a.connects("replay")  # <-'], ["a connects", 'binds="replay"']),
    Mistake(
        [A, GROUP, MEMBER, 'a.binds("r")  # <-', 'member.exposes("r")  # <-'],
        ["a and g/a", '"r"', "another name"],
    ),
    Mistake(['for n in "abc":', '    exp.new_process(n, ["x"]).binds({"r": 7000})  # <-'], ["a, b and c"]),
    Mistake(
        [A, 'a.binds({"r": 6007})  # <-', 'a.exposes({"r": 6006})  # <-'], ["6006 and 6007", "a single port"]
    ),
    Mistake([A, B, 'a.binds("r")', 'b.connects({"r": 7000})  # <-'], ["b connects", "7000", "bound"]),
    Mistake(
        [A, B, 'a.binds({"r": 7000})  # <-', 'b.binds({"p": 7000})  # <-'],
        ['b gives "p"', "7000", '"r" of a', "omit the port"],
        changes={"refused": {"p": "port 7000 is also set for service r"}},
    ),
    Mistake(
        [
            'exp = Experiment("rl", image="i")',
            GROUP,
            'group.new_process("a").binds({"r": 7000})  # <-',
            'group.new_process("b").binds({"p": 7000})  # <-',
        ],
        ["g/b", '"r" of g/a'],
        "kubernetes",
    ),
    Mistake(
        [A, 'a.binds({"board": 6006})  # <-', 'a.exposes("board")'],
        ["a cannot have port 6006", "python (pid 7)", "free that port"],
        changes={"refused": {"board": "python (pid 7) listens there"}},
    ),
    Mistake(
        ['exp = Experiment("rl", port_range=(7000, 7001))  # <-', A, 'a.binds("p", "q", "r")'],
        ['no port for "r"', "all used", "port_range"],
        changes={"refused": {"r": "all used"}},
    ),
    Mistake([A, B, 'a.binds("Re.play")  # <-', 'b.connects("Re.play")'], ['"Re.play"', '"Re-play"']),
    Mistake([A, 'a.binds("a\\nb")  # <-'], [r'"a\nb"', '"a-b"']),
    *(
        Mistake(
            ['exp = Experiment("rl", image="i")', A, B, 'a.binds("web-1")  # <-', 'b.exposes("Web_1")  # <-'],
            ['"web-1"', '"Web_1"', "another name"],
            backend,
        )
        for backend in ("tmux", "kubernetes")
    ),
]

COMMANDS = [
    Mistake(['exp.new_process("a", image="rl:1")  # <-'], ["a has no command", "command=", "cmds="]),
    Mistake([GROUP, 'group.new_process("a", command=[])  # <-'], ["g/a has no command"]),
    Mistake(['exp.new_process("a", args=["-u"])  # <-'], ["args but no command"]),
    Mistake(['exp.new_process("a", command=["", "x"])  # <-'], ["empty command"]),
    Mistake([f"{A}  # <-"], ["a has no image", "symphony:image"], "kubernetes"),
    *(
        Mistake([f'exp.new_process("a", {option})  # <-'], [setting, "NUL", "remove"])
        for option, setting in (
            (r'command="x", args=["a\0b"]', "args of a"),
            (r'cmds=["x"], env={"A": "a\0b"}', "env A of a"),
            (r'cmds=["x"], start_dir="a\0b"', "start_dir of a"),
        )
    ),
    Mistake([r'exp = Experiment("rl", image="\0")  # <-', A], ["image of the experiment", "NUL"]),
    Mistake([r'group = exp.new_process_group("g", env={"A": "\0"})  # <-', MEMBER], ["group g", "NUL"]),
    Mistake([r'exp.new_process("a", command="x", args=["\udc80"])  # <-'], ["args of a", "Unicode"]),
    Mistake(['exp.new_process("a", command="x", args=["y" * 131_072])  # <-'], ["131072 bytes", "a file"]),
    Mistake(['exp.new_process("a", command="x", args=["y" * 100_000] * 30)  # <-'], ["bytes of arguments"]),
    Mistake(
        ["exp.new_process(  # <-", '    "a",', '    command="pyhton",', ")"],
        ['a cannot start "pyhton"', "no such command", "spelling"],
        changes={"unstartable": {"a": "no such command on PATH"}},
    ),
    *(
        Mistake(lines, ["cannot start in", "gone", "start_dir"], changes={"unreadable": {"/gone": "gone"}})
        for lines in (
            ['exp.new_process("a", ["x"], start_dir="/gone")  # <-'],
            ['exp = Experiment("rl", start_dir="/gone")  # <-', A, B],
        )
    ),
    Mistake(
        ['exp.new_process("a", ["x"], start_dir="$HOME/x")  # <-'],
        ["cannot start in", "expandvars"],
        changes={"unreadable": {"$HOME/x": "gone"}},
    ),
    Mistake(
        ['exp = Experiment("rl", secrets=["~/.key"])  # <-', A],
        ["secret file", "~/.key", "no such file", "permissions"],
        changes={"unreadable": {"~/.key": "no such file"}},
    ),
    Mistake(
        ['exp = Experiment("rl", configs=["/a/key", "/b/key"])  # <-', A], ["two config files", "rename"]
    ),
]

VARIABLES = [
    *(
        Mistake([A, f'a.set_env({name!r}, "1")  # <-', 'a.set_env("FINE", 1)'], [f'"{name}"', "letters"])
        for name in ("1A", "A=B", "", "Ä")
    ),
    Mistake([r'exp.new_process("a", ["x"], env={"A\0": "1"})  # <-'], [r'"A\x00"', "letters"]),
    Mistake(['exp = Experiment("rl", env={"A B": 1})  # <-', A], ["the experiment", '"A B"']),
    Mistake(
        [GROUP, 'group.set_env("A B", 1)  # <-', 'group.set_envs({"C": 1})', MEMBER], ["group g", '"A B"']
    ),
    *(
        Mistake(
            [A, 'a.binds("replay-server")  # <-', f'a.set_env("SYMPH_REPLAY_SERVER_{end}", "1")  # <-'],
            [f"_{end}", '"replay-server"', "another variable"],
        )
        for end in ("ADDR", "BIND")
    ),
    *(
        Mistake([f'exp = Experiment("rl", env={{"{name}": "1"}})  # <-', A], [name, "another variable"])
        for name in ("SYMPHONY_ID", "SYMPHONY_CODE")
    ),
    *(
        Mistake([f'exp = Experiment("rl", inherit=["WANDB_*", {name!r}])  # <-', A], [f'"{name}"', '"*"'])
        for name in ("A B", "*", "A*B")
    ),
    Mistake(
        ['exp.new_process("a", ["x"], env={"PWD": "/"})  # <-'], ["a sets PWD", "the shell"], changes=RESERVED
    ),
    Mistake(
        ['exp = Experiment("rl", inherit=["P*", "PWD"])  # <-', A],
        ["inherits PWD", "the shell", "remove it"],
        changes=RESERVED,
    ),
]

PODS = [
    *(
        Mistake([GROUP, MEMBER, f"member.{call}  # <-"], [f"g/a sets {setting}", '"g"', "on the group"])
        for call, setting in (
            ('node_selector("a", "b")', "node_selector"),
            ('add_toleration(key="a")', "tolerations"),
            ('restart_policy("Never")', "restart_policy"),
            ('add_label("a", "b")', "labels"),
        )
    ),
    Mistake(
        [GROUP, f"{MEMBER}  # <-", 'member.pod_yml["spec"] = {"hostNetwork": True}'], ["g/a sets pod_yml"]
    ),
    Mistake(
        [GROUP, 'group.mount_nfs("s", "/data", "data")  # <-', MEMBER, 'group.new_process("b", ["x"])'],
        ["group g", '"data"', "absolute"],
    ),
    Mistake(
        [GROUP, 'group.mount_nfs("s", "/d", "/d")  # <-', MEMBER, 'member.mount_host_path("/d", "/d")  # <-'],
        ["g/a mounts two", '"/d"', "mount_path"],
    ),
    Mistake([A, 'a.mount_empty_dir("My Dir", False, "/scratch")  # <-'], ['"My Dir"', '"my-dir"']),
]


@pytest.fixture
def limits(tmux: BackendLimits, kubernetes: BackendLimits) -> dict[str, BackendLimits]:
    return {"tmux": tmux, "kubernetes": kubernetes, "labels": replace(kubernetes, **LABELS)}


@pytest.mark.parametrize(
    "mistake",
    [*NAMES, *SERVICES, *COMMANDS, *VARIABLES, *PODS],
    ids=lambda mistake: f"{mistake.words[0]}"[:40].encode("unicode_escape").decode(),
)
def test_each_mistake_is_one_problem_with_its_lines_and_remedy(
    declare: Callable[[str], Any], limits: dict[str, BackendLimits], tmp_path: Path, mistake: Mistake
) -> None:
    spec, marked = declare(mistake.program)
    (problem,) = problems(spec, replace(limits[mistake.backend], **mistake.changes))
    text = f"{problem.what}: {problem.remedy}"
    assert [word for word in mistake.words if word not in text] == [], text
    assert problem.what
    assert problem.remedy
    assert sorted({place.line for place in problem.where}) == marked
    assert {place.file for place in problem.where} == {str(tmp_path / "program.py")}


@pytest.mark.parametrize(
    "lines",
    [
        *(
            [f"exp.new_process({name!r}, ['x'])"]
            for name in ("a", "0", "x" * 63, "a--b", "Joy", "agent_0", "_")
        ),
        *([f"exp = Experiment({name!r})", A] for name in ("RL_2", "rl.gke", "x" * 63)),
        [A, 'exp.new_process_group("f").new_process("a", ["x"])', GROUP, MEMBER],
        [A, B, 'a.exposes({"board": 6006})', 'a.binds("board")', 'b.connects("board")'],
        *([A, f'a.binds({{"r": {port}}})'] for port in (1, 65535)),
        ['exp.new_process("a", command="x", args=["y" * 131_071])'],
        ['exp.new_process("a", ["echo " + "y" * 200_000])'],
        ['exp = Experiment("rl", env={"SYMPH_MINE": 1, "PWD": "/"}, inherit="PWD")', A],
        [
            GROUP,
            MEMBER,
            'group.node_selector("a", "b")',
            'group.restart_policy("Never")',
            'group.add_label("a", 1)',
        ],
        *([A, f"a.resource_request(memory={amount!r})"] for amount in (0.5, "500m", "1e3", ".5", "1.5Gi")),
    ],
)
def test_valid_declarations_have_no_problems(planned: Callable[..., Any], lines: Sequence[str]) -> None:
    assert planned(Mistake(lines, ()).program).processes


@pytest.mark.parametrize(
    ("lines", "image"),
    [
        (['exp = Experiment("rl", image="e")', 'exp.new_process("a")'], "e"),
        (['exp = Experiment("rl", image="e")', 'exp.new_process("a", image="p")'], "p"),
        (['exp.new_process_group("g", image="g").new_process("a")'], "g"),
        (['exp.new_process("a")'], "default"),
    ],
)
def test_the_innermost_image_is_used(
    planned: Callable[..., Any], kubernetes: BackendLimits, lines: Sequence[str], image: str
) -> None:
    plan = planned(Mistake(lines, ()).program, kubernetes, defaults={"image": "default"})
    assert plan.processes[0].image == image


def test_different_pods_may_bind_the_same_port(
    planned: Callable[..., Any], kubernetes: BackendLimits
) -> None:
    lines = [f'exp.new_process("{name}", image="i").binds({{"{name}": 7000}})' for name in "ab"]
    assert len(planned(Mistake(lines, ()).program, kubernetes).services) == 2


MAPPED = """
exp = Experiment("rl")
exp.new_process("agent_0", ["x"]).binds("Replay_Server")
exp.new_process_group("Joy").new_process("b_1", ["x"]).connects("Replay_Server")
"""


def test_names_are_mapped_to_labels_on_kubernetes(
    planned: Callable[..., Any], limits: dict[str, BackendLimits]
) -> None:
    plan = planned(MAPPED, limits["labels"])
    assert [(each.path, each.name, each.group) for each in plan.processes] == [
        ("agent-0", "agent-0", None),
        ("joy/b-1", "b-1", "joy"),
    ]
    assert [(group.name, group.paths) for group in plan.groups] == [("joy", ("joy/b-1",))]
    assert plan.renamed == {"agent_0": "agent-0", "Joy": "joy", "Joy/b_1": "joy/b-1"}
    address = plan.services[0].address
    assert address.startswith("replay-server.rl.svc:")
    assert plan.addresses() == {"replay-server": address, "Replay_Server": address}
    assert plan.service_env["SYMPH_REPLAY_SERVER_ADDR"] == address
    assert plan.processes[1].connects == ("replay-server",)
    (remark,) = plan.remarks
    assert "agent_0 -> agent-0" in remark.what
    unmapped = planned(MAPPED)
    assert [each.path for each in unmapped.processes] == ["agent_0", "Joy/b_1"]
    assert (unmapped.renamed, unmapped.remarks) == ({}, ())


def test_the_classic_api_maps_invalid_names(declare: Callable[[str], Any], tmux: BackendLimits) -> None:
    spec, _ = declare('exp = Experiment("My Exp")\nexp.new_process("agent 0", ["x"]).binds("replay.server")')
    plan = build_plan(replace(spec, accepts_classic_names=True), replace(tmux, physical_name="My-Exp"))
    assert plan.processes[0].path == "agent-0"
    assert set(plan.service_env) == {f"SYMPH_REPLAY_SERVER_{end}" for end in ("HOST", "PORT", "ADDR")}
    (remark,) = plan.remarks
    assert "My Exp -> My-Exp" in remark.what


def test_adding_a_process_of_the_experiment_to_a_group_is_refused(declare: Callable[[str], Any]) -> None:
    with pytest.raises(UserError) as raised:
        declare(f'exp = Experiment("rl")\n{A}\n{GROUP}\ngroup.add_process(a)')
    assert '"a" is in experiment "rl"' in raised.value.what
    assert "program.py:5" in raised.value.where
