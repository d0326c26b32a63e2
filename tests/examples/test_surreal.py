"""examples/surreal: learning in tmux, also after its learner is killed; the classic form; the replay."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import signal
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import yaml

from symphony.operations.stacks import match_processes
from tests.sandbox import ROOT, Sandbox, wait_for

FOLDER = ROOT / "examples/surreal"
# The mean return to reach in a short training; that of an untrained network is at most 80 and -900.
SHORT = {"CartPole-v1": 195, "Pendulum-v1": -400}
REPLAY: dict[str, dict[str, Any]] = {
    "CartPole-v1": {},
    "Pendulum-v1": {"replay": "prioritized", "shards": 2},
}


@pytest.fixture(scope="module")
def learning_packages() -> None:
    missing = [
        name for name in ("gymnasium", "jax", "optax", "tensorboard") if not importlib.util.find_spec(name)
    ]
    assert not missing, f"{', '.join(missing)}: run `make examples`"


def configure(sandbox: Sandbox, **settings: Any) -> None:
    """Write the settings of the stack `surreal`."""
    file = Path("stacks/Pulumi.surreal.yaml")
    config = {f"surreal:{name}": value for name, value in settings.items()}
    (sandbox.folder / file).write_text(yaml.safe_dump({"config": config}))


@pytest.mark.thorough
def test_the_stacks_of_the_readme_need_no_settings(sandbox: Sandbox) -> None:
    """surreal.one has one agent, and the four agents of surreal.pendulum run in Pendulum-v1."""
    one, pendulum = (
        sandbox.symphony("plan", stack, "--json").json["plan"]["processes"]
        for stack in ("surreal.one", "surreal.pendulum")
    )
    assert [process["path"] for process in one if process["path"].startswith("agent")] == ["agent-0"]
    commands = [str(process) for process in pendulum if process["path"].startswith("agent")]
    assert len(commands) == 4
    assert all("Pendulum-v1" in command for command in commands)
    # The names of processes in the README's commands are unambiguous.
    readme = (FOLDER / "README.md").read_text()
    named = re.findall(r"symphony (?:logs|visit) surreal\.one ([a-z0-9 -]+?) +#", readme)
    assert named
    for words in named:
        assert match_processes(words.split(), [process["path"] for process in one])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "paths"),
    [
        (
            {"colocateAgent": 2, "agents": 3, "colocateEval": 2, "evals": 2},
            {"agent-pg-0/agent-0", "agent-pg-0/agent-1", "agent-pg-1/agent-2"}
            | {"evaluator-pg-0/evaluator-0", "evaluator-pg-0/evaluator-1"},
        ),
        (
            {"batchAgent": 2, "agents": 3, "batchEval": 2, "evals": 2},
            {"agents-0", "agents-1", "evaluators-0"},
        ),
        ({"agents": 2, "evals": 0}, {"agent-0", "agent-1"}),
    ],
    ids=["colocated", "batched", "alone"],
)
def test_agents_and_evaluators_share_pods_or_processes(
    sandbox: Sandbox, settings: dict[str, int], paths: set[str]
) -> None:
    configure(sandbox, **settings)
    assert {path for path in sandbox.planned("surreal") if not path.startswith("nonagent/")} == paths


POOL = {"labels": {"name": "agents", "cpu": 4, "memory_m": 16384}, "taint": [{"key": "rl", "value": "yes"}]}
PODS: dict[str, Any] = {
    "symphony:backend": "kubernetes",
    "surreal:folder": "/runs",
    "surreal:agents": 3,
    "surreal:colocateAgent": 2,
    "surreal:evalPodType": "eval",
    "surreal:nfs": {"server": "files.example", "path": "/share"},
    "surreal:tfJson": "cluster.tf.json",
    "surreal:podTypes": {
        "agent": {
            "image": "rl:1",
            "assign_to": {"assign_to": "machine", "node_pool_name": "agents", "process_per_machine": 2},
        },
        "nonagent": {
            "image": "rl:2",
            "resource_request": {"cpu": 2, "memory": "4Gi"},
            "resource_limit": {"gpu": 1},
            "selector": {"disk": "fast"},
            "tolerations": [{"key": "surreal", "operator": "Exists", "effect": "NoExecute"}],
        },
        "eval": {"image": "rl:3", "resource_limit": {"memory": "512Mi"}},
    },
}


@pytest.mark.thorough
def test_manifests_follow_the_configured_pod_types(sandbox: Sandbox) -> None:
    """They have the pod types, GKEDispatcher, NFS and services of create_surreal()."""
    taint = [{**each, "effect": "NO_EXECUTE"} for each in POOL["taint"]]
    pools = {"agents": {"name": "agents", "node_config": {**POOL, "taint": taint}}}
    tf = {"resource": {"google_container_cluster": {"rl": {}}, "google_container_node_pool": pools}}
    (sandbox.folder / "cluster.tf.json").write_text(json.dumps(tf))
    file = sandbox.folder / "stacks/Pulumi.surreal.pods.yaml"
    file.write_text(yaml.safe_dump({"config": PODS}))
    made = list(yaml.safe_load_all(sandbox.symphony("plan", "surreal.pods", "--yaml").out))
    pods = {each["metadata"]["name"]: each["spec"] for each in made if each["kind"] == "Pod"}
    assert set(pods) == {"nonagent", "agent-pg-0", "agent-pg-1", "evaluator-0"}
    containers = [each for pod in pods.values() for each in pod["containers"]]
    assert len(containers) == 6 + 3 + 1

    nonagent, agents = pods["nonagent"], pods["agent-pg-0"]
    assert nonagent["nodeSelector"] == {"disk": "fast"}
    assert {"key": "surreal", "operator": "Exists", "effect": "NoExecute"} in nonagent["tolerations"]
    (learner,) = [each for each in nonagent["containers"] if each["name"] == "learner"]
    assert learner["resources"]["requests"] == {"cpu": "2", "memory": "4Gi"}
    assert learner["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert agents["nodeSelector"] == {"name": "agents"}
    assert {"key": "rl", "operator": "Equal", "value": "yes", "effect": "NoExecute"} in agents["tolerations"]
    shares = [each["resources"]["requests"]["cpu"] for each in agents["containers"]]
    # 4000m without 80m that GKE reserves and 356m of its own pods, for two.
    assert shares == ["1782m", "1782m"]
    assert pods["evaluator-0"]["containers"][0]["resources"]["limits"] == {"memory": "512Mi"}
    assert {each["image"] for each in containers} == {"rl:1", "rl:2", "rl:3"}

    for pod in pods.values():
        (share,) = [each["name"] for each in pod["volumes"] if "nfs" in each]
        for container in pod["containers"]:
            assert [each["mountPath"] for each in container["volumeMounts"] if each["name"] == share] == [
                "/runs"
            ]
    services = {each["metadata"]["name"] for each in made if each["kind"] == "Service"}
    assert services == {
        *("ps-frontend", "ps-backend", "parameter-publish", "prefetch-queue", "tensorplex", "loggerplex"),
        *("collector-frontend", "collector-backend", "sampler-frontend", "sampler-backend", "tensorboard"),
    }


@pytest.mark.thorough
def test_the_classic_form_gives_the_same_pods(sandbox: Sandbox) -> None:
    """Both have the pod types, the NFS share and the colocated agents of the configuration."""
    types = {**PODS["surreal:podTypes"], "agent": {"image": "rl:1", "selector": {"disk": "fast"}}}
    config = {name: value for name, value in PODS.items() if name != "surreal:tfJson"}
    file = sandbox.folder / "stacks/Pulumi.surreal.yaml"
    file.write_text(yaml.safe_dump({"config": {**config, "surreal:podTypes": types}}))
    ours = sandbox.symphony("plan", "surreal", "--yaml").out
    nfs = PODS["surreal:nfs"]
    fs = {"server": nfs["server"], "path_on_server": nfs["path"], "mount_path": "/runs"}
    create = {"num_agents": 3, "colocate_agent": 2}
    given = {"cluster": "kube", "pod_types": types, "fs": fs, "settings": {}, "create": create}
    (sandbox.folder / "surreal.yml").write_text(yaml.safe_dump(given))
    file.write_text("config: {}")
    (sandbox.folder / "stacks/surreal.py").write_text((FOLDER / "classic.py").read_text())
    classic = sandbox.symphony("plan", "surreal", "--yaml", env={"SURREAL_CONFIG": "surreal.yml"}).out
    assert "kind: Pod" in ours
    assert manifests(classic) == manifests(ours)


def manifests(text: str) -> dict[str, Any]:
    """Return the manifests by kind and name, without the digests that differ for equal declarations."""
    every = yaml.safe_load_all(re.sub(r"symphony/digest: .*", "", text))
    return {f"{each['kind']} {each['metadata']['name']}": each for each in every}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"colocateAgent": 2, "batchAgent": 2},
            "surreal:colocateAgent and surreal:batchAgent exclude each other",
        ),
        ({"podTypes": {"agents": {}}}, 'there is no pod type "agent"'),
        (
            {"podTypes": {"agent": {"assign_to": {"assign_to": "machine"}}, "nonagent": {}}},
            "assign_to needs the pools of a cluster",
        ),
    ],
    ids=["shared twice", "no such pod type", "no pools"],
)
def test_contradictory_settings_are_a_one_line_error(
    sandbox: Sandbox, settings: dict[str, Any], problem: str
) -> None:
    configure(sandbox, **settings)
    refused = sandbox.symphony("plan", "surreal", code=2).err
    assert problem in refused
    assert "stacks/Pulumi.surreal.yaml" in refused


@pytest.mark.thorough
@pytest.mark.timeout(180)
@pytest.mark.parametrize("environment", ["CartPole-v1", pytest.param("Pendulum-v1", marks=pytest.mark.slow)])
def test_surreal_learns_although_its_learner_is_killed(
    sandbox: Sandbox, learning_packages: None, environment: str
) -> None:
    """The learner is killed after it learned a little, and resumes from its checkpoint."""
    settings = {"environment": environment, "seed": 1, "target": SHORT[environment], "checkpoint_every": 1}
    configure(sandbox, settings=settings | REPLAY[environment], tensorboardPort=0)
    sandbox.symphony("up", "surreal", "-y")

    def evaluations() -> list[float]:
        return [float(value) for value in re.findall(r"return +(\S+) ", log_of(sandbox, "evaluator"))]

    checkpoint = sandbox.folder / "examples/surreal/runs/surreal/checkpoint.npz"
    wait_for(checkpoint.exists, 60, "a checkpoint", pause=0.2)
    pids = sandbox.trees()["surreal/nonagent/learner"]
    os.kill(max(pids, key=lambda pid: psutil.Process(pid).create_time()), signal.SIGKILL)
    wait_for(lambda: "goes on from update" in log_of(sandbox, "learner"), 40, "it goes on", pause=0.5)
    reached = f"reached {SHORT[environment]}"
    wait_for(lambda: reached in log_of(sandbox, "evaluator"), 60, f"{reached}: {evaluations()}", pause=0.5)
    assert evaluations()[0] < SHORT[environment]

    def visited() -> str:
        return sandbox.symphony("visit", "surreal", "tensorboard", "-u", code=None).out.strip()

    url = wait_for(visited, 60, "tensorboard listens", pause=0.5)

    def plotted() -> bool:
        with urllib.request.urlopen(f"{url}/data/plugin/scalars/tags", timeout=10) as answer:
            tags = answer.read().decode()
        return all(tag in tags for tag in ("evaluation", "updates_per_second", "steps_per_second"))

    # Files are flushed, and read again by TensorBoard, every 5 s.
    wait_for(plotted, 30, "numbers of all roles in TensorBoard", pause=0.5)
    assert "learner: goes on from update" in log_of(sandbox, "loggerplex")
    assert sandbox.processes("surreal")["nonagent/learner"]["restarts"] == 1
    sandbox.symphony("delete", "surreal", "-y")
    assert sandbox.trees() == {}


def log_of(sandbox: Sandbox, process: str) -> str:
    return sandbox.symphony("logs", "surreal", process).out


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a module of the example."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in [
        each
        for each in sys.modules
        if each.partition(".")[0] in ("algorithms", "learner", "parameter_server", "shared")
    ]:
        monkeypatch.delitem(sys.modules, name)


def test_a_restarted_parameter_server_sends_nothing_until_the_learner_publishes(example: Any) -> None:
    answer = example("parameter_server").answer
    assert answer({}, {"version": 7}) is None
    newest = {"version": 8, "steps": 100, "network": []}
    assert answer(newest, {"version": 7}) == newest
    assert answer(newest, {"version": 8}) is None


@pytest.fixture
def buffers(example: Any) -> Any:
    """Import the module of replay buffers, which needs only numpy."""
    return example("algorithms.buffers")


def fragment(first: int, count: int) -> dict[str, np.ndarray]:
    """Steps of one environment, numbered by their rewards."""
    return {"rewards": np.arange(first, first + count, dtype=np.float32)[:, None]}


def test_a_full_replay_buffer_drops_the_oldest_steps(buffers: Any) -> None:
    kept = buffers.buffer("uniform", 100, seed=0)
    for first in range(0, 240, 30):
        kept.add(fragment(first, 30))
    assert set(kept.sample(5000)["rewards"]) == set(range(140, 240))
    kept = buffers.buffer("fifo", 100, seed=0)
    for first in range(0, 240, 30):
        kept.add(fragment(first, 30))
    assert kept.sample(9)["rewards"][0].tolist() == [150, 180, 210]
    assert kept.sample(9) is None


def test_a_prioritized_replay_samples_by_priority_and_returns_importance_weights(buffers: Any) -> None:
    kept = buffers.buffer("prioritized", 100, seed=0)
    kept.add(fragment(0, 100))
    kept.prioritize(np.arange(100), np.where(np.arange(100) < 10, 8.0, 0.0))
    drawn = kept.sample(1000)
    often = drawn["rewards"] < 10
    assert often.mean() > 0.8
    assert drawn["weights"][often].max() < drawn["weights"][~often].min()
    # New steps are sampled at once.
    kept.add(fragment(500, 50))
    assert (kept.sample(1000)["rewards"] >= 500).mean() > 0.5
