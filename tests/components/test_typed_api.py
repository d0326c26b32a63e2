"""Type checkers find every mistake in a user's program; docstrings of the public API are complete."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pulumi
import pytest

import symphony
from symphony.backends import registry
from symphony.classic import cluster
from symphony.components.experiment import Experiment
from symphony.errors import UserError
from tests.components import docstrings
from tests.sandbox import ROOT

# Each line that ends in `# wrong` is one mistake.
PROGRAM = '''
"""Every call of the API, rightly and wrongly."""

from pathlib import Path

import libtmux
import pulumi

from symphony import Cluster, Experiment, KubeCluster, Process, ProcessGroup, TmuxCluster, UserError
from symphony import Place, Resources, Toleration
from symphony import Experimnt  # wrong
from symphony.kube import KubeClustr  # wrong

with Experiment("rl", secrets=["~/.key"], configs=Path("a"), port_range=(7000, 7999), env={"A": 1}) as rl:
    learner = rl.new_process("learner", command="python", args=["learner.py", 0.1, Path("x")])
    shell = rl.new_process("shell", ["echo a", "echo b"], start_dir=Path("there"), preamble_cmds="true")
    rl.new_process("a", comand=["python"])  # wrong
    rl.new_process("a", args=[None])  # wrong
    rl.new_process("a", command=5)  # wrong
    rl.new_process(name=5)  # wrong
    rl.add_process(Process("b", image="rl:1", env={"A": Path("x"), "B": "c"}))
    rl.add_process(ProcessGroup("c"))  # wrong
    group = rl.new_process_group("agents", env={"SEED": 1}, image="rl:2")
    rl.new_process_group("agents", command="python")  # wrong
    member = group.new_process("agent-0", cmds="echo a")
    group.new_process("agent-1", imge="rl:2")  # wrong

    learner.binds("a", ["b", "c"], {"d": 6006, "e": None})
    learner.binds(6006)  # wrong
    learner.binds({"d": "6006"})  # wrong
    learner.connects("f", ("g",))
    learner.exposes({"tensorboard": 6006})
    learner.exposes([6006])  # wrong
    learner.resource_request(cpu=2, memory="8Gi")
    learner.resource_request(cpu="500m", memory=8e9)
    learner.resource_request(gpu=1)  # wrong
    learner.resource_limit(2.5, "16Gi", 1)
    learner.resource_limit(gpu="1")  # wrong
    learner.resource_limit(cpu=[2])  # wrong
    learner.image_pull_policy("IfNotPresent")
    learner.image_pull_policy("Somtimes")  # wrong
    learner.restart_policy("OnFailure")
    group.restart_policy("onfailure")  # wrong
    learner.add_toleration(key="gpu", operator="Exists", effect="NoSchedule")
    learner.add_toleration(operator="exists")  # wrong
    learner.add_toleration("gpu", effect="NoRun")  # wrong
    learner.set_env("LR", 0.1)
    learner.set_envs({"LR": 0.1, "DEVICE": "cpu", "HERE": Path("x")})
    learner.set_envs(["LR"])  # wrong
    learner.node_selector("gpu-type", "a100")
    group.add_labels({"team": "rl"}, stage="test")
    group.mount_nfs("10.0.0.2", "/data", mount_path="/mnt/data")
    group.mount_nfs("10.0.0.2", "/data", mountpath="/mnt/data")  # wrong
    learner.mount_secret("wandb", "/etc/wandb", default_mode=0o400)
    learner.pod_yml["hostIPC"] = True

    output = pulumi.Output.from_input("x")
    after = pulumi.ResourceOptions(depends_on=[learner], protect=True)
    rl.new_process(
        "every", command=["python"], args=[output], env={"A": output},
        image=output, binds=["a", "b"], connects="c", exposes={"d": 6006}, opts=after,
        resources=Resources(cpu=2, gpu=1), limits=Resources(memory="8Gi"), restart_policy="OnFailure",
        node_selector={"a": "b"}, tolerations=[Toleration(key="gpu")], image_pull_policy="Always",
        labels={"team": "rl"}, place=Place(gpu=1), pod_yml={"spec": {}}, container_yml={"tty": True},
    )
    rl.new_process_group("pod", restart_policy="Never", place=Place("cpu"), opts=after)
    rl.new_process("a", binds=6006)  # wrong
    rl.new_process("a", restart_policy="onfailure")  # wrong
    rl.new_process("a", resources={"cpu": 2})  # wrong
    rl.new_process_group("pod", binds="a")  # wrong
    Resources(gpus=1)  # wrong

address: str = rl.addresses["replay"] + learner.services["a"] + rl.session + group.session
count: int = len(rl.plan.processes)
rl.addreses  # wrong

tmux = Cluster.new("tmux", server_name="mine", preamble_cmds=["true"], start_dir="~/rl")
default: TmuxCluster = Cluster.new()
kube: KubeCluster = Cluster.new("k8s", kubeconfig=Path("config"), context="c", image="rl:1")
other: Cluster = Cluster.new("subprocess", start_dir="~/rl")
Cluster.new("subprocess").session("rl")  # wrong
Cluster.new("subprocess", image="rl:1")  # wrong
Cluster.new("tmux", sever_name="mine")  # wrong
Cluster.new("kubernetes", server_name="mine")  # wrong
Cluster.new("kube", image=7)  # wrong
experiment = tmux.new_experiment("rl", env={"A": 1}, secrets="~/.key")
classic = experiment.new_process("a", container_image="rl:1", standalone=True)
classic.resource_request(cpu=1, mem="2Gi")
classic.bind("x")
experiment.new_process("a", container_img="rl:1")  # wrong
tmux.new_experiment("rl", range(7000, 7100), ["~/.key"])
tmux.new_experiment("rl", port_rang=(1, 2))  # wrong
print(tmux.launch(experiment).seconds, tmux.launch(experiment, dry_run=True).changes)
tmux.launch(experiment, dry_run=True).seconds  # wrong
tmux.launch("rl")  # wrong
pane: libtmux.Window = tmux.session("rl").window("agents/agent-0")
kube.session("rl")  # wrong
lines: list[str] = list(tmux.get_log("rl", "learner", since="5m", tail=20))
tmux.get_log("rl", "learner", tail="20")  # wrong
state: str = tmux.describe_process("rl", "agent-0", "agents")["State"]
code: int = tmux.exec_command("rl", "learner", ["nvidia-smi"])
try:
    tmux.delete("rl")
except UserError as error:
    print(error.what, error.where, error.remedy)
'''


def basedpyright(file: Path) -> set[int]:
    settings = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "include": [file.name]}
    settings |= {"venvPath": str(ROOT), "venv": ".venv", "reportUnusedExpression": False}
    (file.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    content = json.loads(check("basedpyright", "--outputjson", "--project", str(file.parent)))
    return {each["range"]["start"]["line"] + 1 for each in content["generalDiagnostics"]}


def mypy(file: Path) -> set[int]:
    config = file.with_name("mypy.ini")
    # These two would take over a minute, and are not relevant for the API.
    config.write_text(
        "[mypy]\nstrict = true\n[mypy-pulumi_kubernetes.*,pulumi_gcp.*]\nfollow_imports = skip\n"
    )
    words = [f"--config-file={config}", f"--cache-dir={file.parent}", f"--python-executable={sys.executable}"]
    result = check("mypy", *words, "--hide-error-context", str(file))
    return {int(number) for number in re.findall(r"^\S*program\.py:(\d+): error", result, flags=re.M)}


def check(checker: str, *words: str) -> str:
    command = [str(Path(sys.executable).with_name(checker)), *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("checker", [basedpyright, mypy])
def test_type_checkers_find_each_mistake_and_nothing_else(
    tmp_path: Path, checker: Callable[[Path], set[int]]
) -> None:
    file = tmp_path / "program.py"
    source = f"{PROGRAM}{docstrings.program()}"
    file.write_text(source)
    lines = dict(enumerate(source.splitlines(), 1))
    wrong = {number for number, line in lines.items() if line.endswith("# wrong")}
    result = checker(file)
    assert {lines[number] for number in wrong - result} == set(), "not found"
    assert {lines[number] for number in result - wrong} == set(), "found where nothing is wrong"


# Words in examples that need Docker, a cluster or a running experiment; other tests cover these calls.
NEED_MORE = re.compile(
    "cluster|builder|dispatcher|session|planned|self|MyParser|symphony.tmux|get_process|run_program"
    "|clean_images|with Experiment|subprocess",
    re.IGNORECASE,
)


def test_examples_of_docstrings_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("symphony.yaml").write_text("username: ada\n")
    every = [code for code in docstrings.examples() if not NEED_MORE.search(code)]
    assert len(every) > 40
    for code in every:
        experiment = Experiment("rl")
        prepare, process, learner = map(experiment.new_process, ("prepare", "process", "old-learner"))
        group = experiment.new_process_group("other-agents")
        objects = {"experiment": experiment, "process": process, "group": group, "processgroup": group}
        objects |= {"train": process, "prepare": prepare, "learner": learner, "book": symphony.AddressBook()}
        exec(code, {name: getattr(symphony, name) for name in dir(symphony)} | objects)


def test_docstrings_explain_each_parameter_and_have_an_example() -> None:
    every = list(docstrings.public_api())
    assert len(every) > 150
    assert [(of, each, names) for of, each in every if (names := docstrings.unexplained(each))] == []
    needed = [each for _, each in every if docstrings.needs_example(each)]
    assert [each for each in needed if docstrings.example(each) is None] == []


def test_cluster_new_is_typed_for_every_name_of_tmux_and_kubernetes() -> None:
    for row in (registry.get("tmux"), registry.get("kubernetes")):
        typed = cluster.Tmux if row.name == "tmux" else cluster.Kubernetes
        assert set(get_args(typed)) == {row.name, *row.aliases}


@pytest.mark.parametrize("attribute_name", ["plan", "session", "addresses"])
def test_plan_session_and_addresses_before_the_launch_are_errors(attribute_name: str) -> None:
    experiment = Experiment("rl")
    group = experiment.new_process_group("agents")
    asked = [(experiment, attribute_name, "rl")]
    if attribute_name == "session":
        asked += [(group, attribute_name, "agents"), (group.new_process("a"), attribute_name, "a")]
        asked += [(experiment.new_process("b"), "services", "b")]
    for thing, attribute, name in asked:
        with pytest.raises(UserError) as raised:
            getattr(thing, attribute)
        assert raised.value.what == f'{type(thing).__name__} "{name}" is not launched yet'
        assert "test_typed_api.py:" in raised.value.where


def test_resource_options_are_passed_to_components() -> None:
    first = symphony.Process("first")
    options = pulumi.ResourceOptions(protect=True, depends_on=[first])
    process = symphony.Process("second", opts=options)
    merged = process._options_under(first)
    assert (merged.protect, merged.parent) == (True, first)
    assert merged.depends_on == [first]
    assert options.parent is None
