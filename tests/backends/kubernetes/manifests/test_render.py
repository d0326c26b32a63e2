"""The manifests rendered from a plan: every setting of the plan is in them, nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from symphony import Experiment, Probe
from symphony.backends.kubernetes import expand, supervisor
from symphony.backends.kubernetes.manifests import render, workloads
from symphony.backends.kubernetes.manifests.labels import POOL, POOL_MAX
from symphony.backends.kubernetes.manifests.pod import merge
from symphony.backends.kubernetes.settings import Settings
from symphony.placement.pool import GPU_TAINT, POOL_LABEL
from symphony.plan.build import build_plan
from symphony.spec.experiment import ExperimentSpec
from tests.placement.fleet import FLEET

OWNER = "test/rl.x#12345678"


def manifests(experiment: Experiment | ExperimentSpec, **chosen: Any) -> render.Manifests:
    spec = experiment if isinstance(experiment, ExperimentSpec) else experiment.spec
    given_ = Settings(image="rl:1", **chosen)
    plan = build_plan(spec, expand.offline_limits(spec, given_, "rl-x"))
    files = {"~/.key": b"x", "train.yaml": b"lr: 1", "dir/table.bin": b"\xff"}
    return render.render(plan, given_, OWNER, files=files)


def pod(experiment: Experiment, name: str = "a", **chosen: Any) -> dict[str, Any]:
    return manifests(experiment, **chosen).pods[name][1]


def container(**options: Any) -> dict[str, Any]:
    experiment = Experiment("rl", preamble_cmds=["ulimit -n 4096"], start_dir="/work")
    experiment.new_process("a", **options)
    return pod(experiment)["spec"]["containers"][0]


def experiment_with_dependencies(**chosen: Any) -> render.Manifests:
    experiment = Experiment("rl", primary="train")
    experiment.new_process("prepare")
    group = experiment.new_process_group("agents")
    group.new_process("0", depends_on={"prepare": "completed"})
    experiment.new_process("train", depends_on="agents", termination_delay=5)
    return manifests(experiment, **chosen)


def test_a_waiting_pod_has_a_scheduling_gate_that_does_not_change_its_fingerprint():
    plain = Experiment("rl")
    plain.new_process("train", termination_delay=5)
    gated, free = experiment_with_dependencies().pods["train"][1], pod(plain, "train")
    assert gated["spec"]["schedulingGates"] == [{"name": supervisor.GATE}]
    assert "schedulingGates" not in experiment_with_dependencies().pods["prepare"][1]["spec"]
    assert workloads.fingerprint(gated) == workloads.fingerprint(free)


def test_the_role_of_the_supervisor_covers_only_pods_of_its_experiment():
    account, role, binding, job = experiment_with_dependencies().supervisor
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {
            "apiGroups": [""],
            "resources": ["pods"],
            "verbs": ["patch"],
            "resourceNames": ["agents", "prepare", "train"],
        },
    ]
    names = {each["metadata"]["name"] for each in (account, role, binding, job)}
    assert {*names, binding["roleRef"]["name"], binding["subjects"][0]["name"]} == {"symphony-supervisor"}
    spec = job["spec"]["template"]["spec"]
    orders = supervisor.orders_in(spec["containers"][0]["env"][0]["value"])
    assert orders["pods"] == {"train": [0], "agents": [1]}
    assert [(each["pod"], each["container"], each["condition"]) for each in orders["waits"]] == [
        ("agents", "0", "ready"),
        ("prepare", "prepare", "completed"),
    ]
    assert (orders["primary"][0]["pod"], orders["delays"]) == ("train", {"train": 5})
    # Kubernetes would replace what looks like a variable.
    assert "$(" not in spec["containers"][0]["command"][2]


def test_equal_workers_in_several_pods_are_made_again_by_jobs_and_start_together():
    experiment = Experiment("rl")
    experiment.new_process("train", replicas=2, rendezvous=True)
    experiment.new_process_group("node").new_process("local", replicas=2, rendezvous=True)
    made = manifests(experiment)
    worker = made.pods["train-1"][1]
    assert worker["kind"] == workloads.JOB
    assert worker["spec"]["template"]["spec"]["schedulingGates"] == [{"name": supervisor.GATE}]
    assert (made.pods["node"][1]["kind"], "schedulingGates" in made.pods["node"][1]["spec"]) == ("Pod", False)
    _, role, _, job = made.supervisor
    suspends = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["patch"]}
    assert {**suspends, "resourceNames": ["train-0", "train-1"]} in role["rules"]
    (orders,) = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert supervisor.orders_in(orders["value"])["equal"] == [["train-0", "train-1"]]


def test_an_experiment_without_dependencies_has_no_supervisor():
    experiment = Experiment("rl")
    experiment.new_process("a")
    assert manifests(experiment).supervisor == ()


def test_a_binding_process_gets_a_listen_probe_unless_it_declares_one():
    listens = container(binds={"a": 7001, "b": 7002})["startupProbe"]
    assert listens["exec"]["command"][-2:] == ["7001", "7002"]
    assert listens["failureThreshold"] == 2**31 - 1, "readiness restarts nothing"
    declared = container(binds="a", readiness_probe=Probe(tcp=7001, period_seconds=9))
    assert "startupProbe" not in declared
    assert declared["readinessProbe"]["tcpSocket"] == {"port": 7001}
    assert declared["readinessProbe"]["periodSeconds"] == 9
    of_yml = container(binds="a", container_yml={"startupProbe": {"exec": {"command": ["x"]}}})
    assert of_yml["startupProbe"] == {"exec": {"command": ["x"]}}


def test_cmds_are_run_by_sh_in_the_image():
    made = container(cmds=["cd $(mktemp -d)", "python a.py"], preamble_cmds=["set -e"])
    lines = "ulimit -n 4096\nset -e\ncd $$(mktemp -d)\npython a.py"
    assert (made["command"], made.get("args")) == (["sh", "-c", lines], None)


@pytest.mark.parametrize(
    ("options", "command", "args"),
    [
        ({"command": "python", "args": ["a.py"]}, ["python"], ["a.py"]),
        ({"args": ["a.py"]}, None, ["a.py"]),
        ({}, None, None),
    ],
)
def test_command_and_args_take_precedence_over_cmds(options, command, args):
    for cmds in ([], ["echo on tmux"]) if options else ([],):
        made = container(cmds=cmds, **options)
        assert (made.get("command"), made.get("args")) == (command, args)


def experiment_with_every_setting() -> Experiment:
    experiment = Experiment(
        "rl", secrets=["~/.key"], configs=["train.yaml", "dir/table.bin"], env={"SEED": 1}
    )
    learner = experiment.new_process(
        "learner", command="python -u", args=["learner.py", "$(HOME)"], image="rl:2"
    )
    learner.binds("replay")
    learner.exposes({"tensorboard": 6006})
    learner.resource_request(cpu=2, memory="4Gi")
    learner.resource_limit(gpu=1)
    learner.image_pull_policy("Always")
    learner.node_selector("pool", "gpu")
    learner.add_toleration(key="gpu", operator="Exists", effect="NoSchedule")
    learner.restart_policy("OnFailure")
    learner.add_label("team", "rl")
    learner.mount_shared_memory()
    learner.mount_git_repo("https://git.test/rl.git", "main", "/code")
    learner.container_yml["stdin"] = True
    learner.pod_yml["spec"] = {"priorityClassName": "high"}
    group = experiment.new_process_group("agents")
    group.mount_nfs("nfs.test", "/data", "/data")
    for i in range(2):
        agent = group.new_process(f"agent-{i}")
        agent.connects("replay")
        agent.mount_empty_dir("scratch", False, "/scratch")
    return experiment


def test_manifests_of_an_experiment_with_every_setting(snapshot) -> None:
    assert manifests(experiment_with_every_setting(), pull_secrets=("registry",)).all() == snapshot


def test_manifests_at_the_restricted_level_with_a_load_balancer(snapshot) -> None:
    experiment = Experiment("rl")
    experiment.new_process("a").exposes({"web": 80})
    result = manifests(
        experiment, pod_security="restricted", expose="LoadBalancer", source_ranges=("10.0.0.0/8",)
    )
    assert result.all() == snapshot


def test_config_files_that_pulumi_would_alter_are_stored_as_binary_data() -> None:
    experiment = Experiment("rl", configs=["train.yaml", "dir/table.bin"])
    experiment.new_process("a")
    spec = experiment.spec
    plan = build_plan(spec, expand.offline_limits(spec, Settings(image="rl:1"), "rl-x"))
    files = {"train.yaml": "a\x85b".encode(), "dir/table.bin": b"a\tb\x01"}
    made = render.render(plan, Settings(image="rl:1"), OWNER, files=files).files[-1]
    assert made["binaryData"] == {"train.yaml": "YcKFYg=="}
    assert made["data"] == {"table.bin": "a\tb\x01"}


def test_manifests_of_jobs(snapshot) -> None:
    experiment = Experiment("rl")
    experiment.new_process("once", command="true")
    retried = experiment.new_process("retried", command="true", env={"X": 1})
    retried.restart_policy("OnFailure")
    experiment.new_process_group("pool").new_process("w").binds("s")
    result = manifests(experiment, controller="Job")
    assert [manifest for _, manifest in result.pods.values()] == snapshot


@pytest.mark.parametrize("controller", ["Pod", "Job"])
def test_fingerprint_changes_with_controller_and_namespace(controller: str) -> None:
    _, plain = manifests(experiment_with_every_setting()).pods["agents"]
    _, controlled = manifests(experiment_with_every_setting(), controller=controller).pods["agents"]
    is_same = workloads.fingerprint(plain) == workloads.fingerprint(controlled)
    assert is_same == (controller == "Pod")
    facts = workloads.processes_of(controlled)["agents/agent-0"]
    assert facts["controller"] == ({} if controller == "Pod" else {"kind": controller, "retries": 0})
    elsewhere = {**plain, "metadata": {**plain["metadata"], "namespace": "other"}}
    assert workloads.fingerprint(elsewhere) != workloads.fingerprint(plain)


def test_processes_of_a_group_share_one_volume_per_nfs_folder() -> None:
    experiment = Experiment("rl")
    group = experiment.new_process_group("a")
    for name in ("x", "y"):
        group.new_process(name).mount_nfs("server", "/data", f"/{name}")
    spec = pod(experiment)["spec"]
    assert len(spec["volumes"]) == 1
    assert {each["volumeMounts"][0]["name"] for each in spec["containers"]} == {spec["volumes"][0]["name"]}


def test_an_unused_service_does_not_change_the_pod() -> None:
    def experiment(more: bool) -> Experiment:
        made = Experiment("rl")
        made.new_process("a").binds("used")
        made.new_process("b").connects("used")
        if more:
            made.new_process("c").binds("other")
        return made

    few, many = manifests(experiment(False)), manifests(experiment(True))
    assert {name: few.pods[name] for name in "ab"} == {name: many.pods[name] for name in "ab"}
    assert "SYMPH_OTHER_HOST" in many.files[0]["data"]
    assert "SYMPH_OTHER_HOST" not in few.files[0]["data"]


def test_a_changed_port_changes_only_pods_that_use_the_service() -> None:
    def experiment(port: int) -> Experiment:
        made = Experiment("rl")
        made.new_process("a").binds({"used": port})
        made.new_process("b").connects("used")
        made.new_process("c")
        return made

    before, after = manifests(experiment(1000)).pods, manifests(experiment(1001)).pods
    assert [name for name in "abc" if before[name] != after[name]] == ["a", "b"]


@pytest.mark.parametrize("controller", ["Pod", "Job"])
def test_experiments_in_a_shared_namespace_have_no_object_name_in_common(controller: str) -> None:
    """Neither names of objects nor references to them are shared."""
    chosen = {"controller": controller, "create_namespace": False}
    result = {
        name: manifests(experiment_with_every_setting(), shared_as=name, **chosen) for name in ("one", "two")
    }
    for name, other in (("one", "two"), ("two", "one")):
        names = {each["metadata"]["name"] for each in result[name].all()}
        assert all(each.startswith(f"{name}-") for each in names)
        assert {each["spec"]["selector"]["symphony/pod"] for each in result[name].services.values()} <= names
        manifests_text = json.dumps(result[other].all())
        assert [each for each in names if each in manifests_text] == []
        assert f"{name}-replay.rl-x.svc" in json.dumps(result[name].all())
        assert {each["metadata"]["labels"]["symphony/experiment"] for each in result[name].all()} == {name}


def test_pod_yml_and_container_yml_are_merged_last_by_name() -> None:
    experiment = Experiment("rl")
    process = experiment.new_process("a", env={"X": "1"})
    process.container_yml["env"] = [{"name": "Y", "value": "2"}]
    process.pod_yml["spec"] = {"containers": [{"name": "a", "tty": True}, {"name": "side", "image": "s"}]}
    process.pod_yml["metadata"] = {"labels": {"mine": "1"}}
    result = pod(experiment)
    first, second = result["spec"]["containers"]
    assert [each["name"] for each in first["env"]] == ["SYMPHONY_ROLE", "PYTHONUNBUFFERED", "X", "Y"]
    assert first["tty"] is True
    assert second["name"] == "side"
    assert result["metadata"]["labels"].items() >= {"mine": "1", "symphony/pod": "a"}.items()
    assert merge({"a": 1}, {"a": None}) == {}


@pytest.mark.parametrize("controller", ["Pod", "Job"])
def test_group_settings_apply_to_their_pod_only_and_processes_override_them(controller: str) -> None:
    experiment = Experiment("rl")
    group = experiment.new_process_group("g", image="of-the-group:1", env={"SEED": 1, "ALL": 1})
    group.image_pull_policy("Never")
    group.node_selector("pool", "gpu")
    group.add_toleration(key="a", operator="Exists", effect="NoExecute")
    group.add_labels({"run": "7"}, kind="try")
    group.pod_yml["spec"] = {"priorityClassName": "high"}
    own = group.new_process("own", image="own:1", env={"SEED": 2})
    own.image_pull_policy("Always")
    own.resource_request(cpu=2)
    group.new_process("plain")
    experiment.new_process_group("other").new_process("x")
    rendered = manifests(experiment, controller=controller).pods
    pods = {name: workloads.pod_in(manifest) for name, (_, manifest) in rendered.items()}
    spec = pods["g"]["spec"]
    assert spec["nodeSelector"] == {"pool": "gpu"}
    assert spec["tolerations"] == [{"key": "a", "operator": "Exists", "effect": "NoExecute"}]
    assert spec["priorityClassName"] == "high"
    assert pods["g"]["metadata"]["labels"].items() >= {"run": "7", "kind": "try"}.items()
    first, second = spec["containers"]
    env = {each["name"]: each["value"] for each in first["env"]}
    assert (first["image"], first["imagePullPolicy"]) == ("own:1", "Always")
    assert env == {"SYMPHONY_ROLE": "own", "PYTHONUNBUFFERED": "1", "SEED": "2", "ALL": "1"}
    assert first["resources"] == {"requests": {"cpu": "2"}}
    assert (second["image"], second["imagePullPolicy"]) == ("of-the-group:1", "Never")
    assert "resources" not in second
    assert not {"nodeSelector", "tolerations", "priorityClassName"} & set(pods["other"]["spec"])
    assert "run" not in pods["other"]["metadata"]["labels"]


def test_group_restart_policy_sets_pod_restart_policy_and_job_backoff_limit() -> None:
    experiment = Experiment("rl")
    for name in ("tried", "once"):
        experiment.new_process_group(name).new_process("x")
    experiment.get_process_group("tried").restart_policy("OnFailure")
    pods = manifests(experiment).pods
    assert pods["tried"][1]["spec"]["restartPolicy"] == "OnFailure"
    assert pods["once"][1]["spec"]["restartPolicy"] == "Never"
    jobs = manifests(experiment, controller="Job").pods
    assert jobs["tried"][1]["spec"]["backoffLimit"] > jobs["once"][1]["spec"]["backoffLimit"] == 0


def test_place_sets_node_selector_resources_and_annotations():
    experiment = Experiment("rl")
    experiment.new_process("learner", command="x").place(gpu=1, gpu_type="v100", memory="8Gi")
    settings, spec = Settings(image="rl:1"), experiment.spec
    plan = build_plan(spec, replace(expand.offline_limits(spec, settings, "rl"), pools=FLEET))
    _, learner = render.render(plan, settings, "o").pods["learner"]
    assert learner["spec"]["nodeSelector"] == {POOL_LABEL: "gpu"}
    assert learner["spec"]["tolerations"] == [
        {"key": GPU_TAINT, "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    ]
    assert learner["spec"]["containers"][0]["resources"] == {
        "requests": {"memory": "8Gi"},
        "limits": {"memory": "8Gi", "nvidia.com/gpu": "1"},
    }
    notes = learner["metadata"]["annotations"]
    assert (notes[POOL], notes[POOL_MAX]) == ("gpu", "4")
