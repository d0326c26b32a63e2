"""Placed pods: selectors, tolerations, requests and limits stand in their manifests."""

from __future__ import annotations

from symphony import Experiment
from symphony.backends.kubernetes import target
from symphony.backends.kubernetes.manifests import render
from symphony.backends.kubernetes.manifests.labels import POOL, POOL_MAX
from symphony.backends.kubernetes.settings import Settings
from symphony.placement.pool import GPU_TAINT, POOL_LABEL
from symphony.plan.build import build_plan
from tests.placement.fleet import FLEET


def test_a_placed_process_and_a_placed_group():
    experiment = Experiment("rl")
    experiment.new_process("learner", command="x").place(gpu=1, gpu_type="v100", memory="8Gi")
    group = experiment.new_process_group("agents")
    group.place("cpu", per_machine=2)
    for name in ("a", "b"):
        group.new_process(name, command="x")
    settings = Settings(image="rl:1")
    spec = experiment.spec
    plan = build_plan(spec, target.target(spec, settings, "rl", pools=FLEET))
    pods = {name: pod for name, (_, pod) in render.render(plan, settings, "o").pods.items()}

    learner = pods["learner"]["spec"]
    assert learner["nodeSelector"] == {POOL_LABEL: "gpu"}
    assert learner["tolerations"] == [
        {"key": GPU_TAINT, "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    ]
    assert learner["containers"][0]["resources"] == {
        "requests": {"memory": "8Gi"},
        "limits": {"memory": "8Gi", "nvidia.com/gpu": "1"},
    }
    notes = pods["learner"]["metadata"]["annotations"]
    assert (notes[POOL], notes[POOL_MAX]) == ("gpu", "4")

    agents = pods["agents"]["spec"]
    assert agents["nodeSelector"] == {POOL_LABEL: "cpu"}
    share = {"requests": {"cpu": "1803m", "memory": "11608Mi"}, "limits": {"memory": "11608Mi"}}
    assert [each["resources"] for each in agents["containers"]] == [share, share]
