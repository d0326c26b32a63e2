"""`process.place()`: resulting selectors and resources, and refused combinations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from symphony.placement.pool import GPU_TAINT, POOL_LABEL, Taint
from symphony.plan.backend_limits import BackendLimits
from symphony.spec.pod import Place, Toleration
from symphony.spec.process import Resources
from tests.placement.fleet import CPU, FLEET, GPU, pool


@pytest.fixture
def cluster(kubernetes: BackendLimits) -> BackendLimits:
    return replace(kubernetes, pools=FLEET)


def program(*calls: str, image: str = "i") -> str:
    lines = "\n".join(f"p.{call}" for call in calls)
    return f"exp = Experiment('rl')\np = exp.new_process('p', image='{image}', command='x')\n{lines}\n"


@pytest.fixture
def process(planned: Callable[..., Any], cluster: BackendLimits) -> Callable[..., Any]:
    def make(*calls: str, **backend: Any) -> Any:
        return planned(program(*calls), cluster, **backend).processes[0]

    return make


def test_a_share_becomes_requests_limits_selector_and_tolerations(process: Callable[..., Any]):
    result = process("place('gpu', per_machine=1)")
    assert result.pod.node_selector == {POOL_LABEL: "gpu"}
    assert result.pod.tolerations == (Toleration(GPU_TAINT, "Equal", "present", "NoSchedule"),)
    assert result.resource_request == Resources("7504m", "25891Mi", None)
    assert result.resource_limit == Resources(None, "25891Mi", 1)


def test_requested_amounts_are_kept_as_written(process: Callable[..., Any]):
    result = process("place(cpu=3, memory='8Gi')")
    assert result.pod.node_selector == {POOL_LABEL: "cpu"}
    assert result.resource_request == Resources(3, "8Gi")
    assert result.resource_limit == Resources(None, "8Gi")


def test_gpu_type_alone_means_one_gpu(process: Callable[..., Any]):
    result = process("place(gpu_type='v100')")
    assert result.pod.node_selector == {POOL_LABEL: "gpu"}
    assert result.resource_limit.gpu == 1


def test_an_unplaced_process_gets_the_cheapest_pool_that_fits(process: Callable[..., Any]):
    result = process("resource_request(cpu=5, memory='40Gi')")
    assert result.pod.node_selector == {POOL_LABEL: "cpu"}
    assert result.resource_request == Resources(5, "40Gi")
    assert result.resource_limit == Resources()
    assert process("resource_limit(gpu=1)").pod.node_selector == {POOL_LABEL: "gpu"}


def test_later_place_calls_override_earlier_ones_field_by_field(process: Callable[..., Any]):
    result = process("place('cpu', per_machine=4)", "place('cpu', per_machine=2)")
    assert result.place == Place("cpu", 2)


def test_an_explicit_request_overrides_a_share(process: Callable[..., Any]):
    result = process(
        "place('cpu', per_machine=4)",
        "resource_request(cpu='500m')",
        "add_toleration('x', 'Exists')",
    )
    assert result.resource_request == Resources("500m", "11608Mi")
    assert result.pod.tolerations == (Toleration("x", "Exists"),)
    limited = process("place('cpu', per_machine=4)", "resource_limit(memory='10Gi')")
    assert (limited.resource_request.memory, limited.resource_limit.memory) == (None, "10Gi")


def test_a_process_with_node_name_is_not_placed(planned: Callable[..., Any], cluster: BackendLimits):
    plan = planned(program("pod_yml['spec']['nodeName'] = 'n1'"), cluster)
    assert plan.processes[0].pod.node_selector == {}
    assert plan.placement is None


def test_place_sets_resources_without_known_pools(process: Callable[..., Any]):
    result = process("place(cpu=3, gpu=1)", pools=())
    assert (result.resource_request.cpu, result.resource_limit.gpu) == (3, 1)
    assert result.pod.node_selector == {}


def test_a_group_is_placed_as_one_pod(planned: Callable[..., Any], cluster: BackendLimits):
    plan = planned(
        """
        exp = Experiment("rl")
        g = exp.new_process_group("g", image="i")
        a, b = g.new_process("a", command="x"), g.new_process("b", command="x")
        g.place("gpu", cpu=6)
        b.place(gpu=1)
        """,
        cluster,
    )
    a, b = plan.processes
    assert plan.groups[0].pod.node_selector == {POOL_LABEL: "gpu"}
    assert (a.resource_request.cpu, b.resource_request.cpu) == ("3000m", "3000m")
    assert (a.resource_limit.gpu, b.resource_limit.gpu) == (None, 1)
    assert [placed.pod for placed in plan.placement.pools[0].takes] == ["g"]


def test_the_plan_has_machines_and_total_price(planned: Callable[..., Any], cluster: BackendLimits):
    plan = planned(
        """
        exp = Experiment("rl", image="i")
        exp.new_process("learner", command="x").place(gpu=1, gpu_type="v100")
        for i in range(12):
            exp.new_process(f"agent-{i}", command="x").place("cpu", per_machine=3)
        """,
        cluster,
    )
    gpu, cpu = plan.placement.pools
    assert (gpu.name, gpu.machines, gpu.max, gpu.hourly) == ("gpu", 1, 4, pytest.approx(2.86, abs=0.001))
    assert (cpu.name, cpu.machines, cpu.max, cpu.hourly) == ("cpu", 4, 20, pytest.approx(1.8929, abs=0.001))
    assert plan.placement.hourly == pytest.approx(4.7529, abs=0.001)
    assert {placed.per_machine for placed in cpu.takes} == {3}
    assert "us-central1" in plan.placement.priced


def test_an_unknown_price_makes_the_total_unknown(planned: Callable[..., Any], kubernetes: BackendLimits):
    own = pool("own", "n2-custom-8-16384")
    plan = planned(program("place('own', cpu=1)"), replace(kubernetes, pools=(CPU, own)))
    assert (plan.placement.pools[0].hourly, plan.placement.hourly) == (None, None)


def test_all_placement_problems_are_reported_at_once(problems_of: Callable[..., Any], cluster: BackendLimits):
    result = problems_of(
        """
        exp = Experiment("rl", image="i")
        exp.new_process("big", command="x").place(cpu=12, memory="96Gi")
        exp.new_process("more", command="x").place("gpu", gpu=2)
        exp.new_process("typo", command="x").place("gpus")
        """,
        cluster,
    )
    starts = ("big fits no pool", "more does not fit pool gpu", 'typo requests pool "gpus"')
    assert [each.what.startswith(start) for each, start in zip(result, starts, strict=True)] == [True] * 3


@pytest.mark.parametrize(
    ("calls", "what", "remedy"),
    [
        (
            ["place(cpu=3)  # <-", "resource_request(cpu=2)"],
            "p sets cpu in place()",
            "set it once",
        ),
        (
            ["place('cpu')  # <-", "pod_yml['spec']['nodeName'] = 'n1'"],
            "p is placed twice: by place() and by nodeName in pod_yml",
            "remove one of them",
        ),
        (
            ["place('cpu')  # <-", "node_selector('cloud.google.com/gke-nodepool', 'gpu')"],
            "p does not fit pool cpu, which has cloud.google.com/gke-nodepool=cpu, not gpu",
            "request less",
        ),
        (
            ["place(cpu=1)  # <-", "node_selector('cloud.google.com/gke-spot', 'true')"],
            "p fits no pool: cheap has spot machines; cpu has no label cloud.google.com/gke-spot",
            "request less, set spot=True, or change",
        ),
    ],
)
def test_each_placement_problem_has_its_line_and_remedy(
    problems_of: Callable[..., Any], cluster: BackendLimits, calls: list[str], what: str, remedy: str
):
    (result,) = problems_of(program(*calls), cluster)
    assert result.what.startswith(what)
    assert result.remedy.startswith(remedy)
    (marked,) = [line for line, call in enumerate(calls, 4) if "# <-" in call]
    assert [place.line for place in result.where] == [marked]


def test_a_taint_as_the_only_obstacle_is_named_in_the_remedy(
    problems_of: Callable[..., Any], kubernetes: BackendLimits
):
    ours = pool("ours", "n1-standard-2", taints=(Taint("team", "rl"),))
    (result,) = problems_of(program("place(cpu=1)"), replace(kubernetes, pools=(ours,)))
    assert "name the pool or tolerate its taint" in result.remedy


def test_processes_of_a_group_must_use_the_same_pool(problems_of: Callable[..., Any], cluster: BackendLimits):
    (result,) = problems_of(
        """
        exp = Experiment("rl", image="i")
        g = exp.new_process_group("g")
        g.new_process("a", command="x").place("cpu")
        g.new_process("b", command="x").place("gpu")
        """,
        cluster,
    )
    assert (
        result.what
        == 'g is a single pod, but its place() calls differ in pool: g/a sets "cpu", g/b sets "gpu"'
    )


def test_per_machine_without_known_pools_is_a_problem(
    problems_of: Callable[..., Any], kubernetes: BackendLimits
):
    (result,) = problems_of(program("place('cpu', per_machine=2)"), kubernetes)
    assert result.what == "p calls place(), but the pools of the cluster are not known"


def test_a_tight_pool_at_its_maximum_is_a_remark(planned: Callable[..., Any], kubernetes: BackendLimits):
    two = replace(GPU, name="two", max=2, taints=(Taint("a"),), gpus=0, gpu_type="")
    plan = planned(
        """
        exp = Experiment("rl", image="i")
        for i, cpu in enumerate((2, 2, 7)):
            exp.new_process(f"p{i}", command="x").place("two", cpu=cpu)
        """,
        replace(kubernetes, pools=(two,)),
    )
    (remark,) = plan.remarks
    assert remark.what.startswith("pool two is almost full")


def test_place_is_listed_as_unused_on_tmux(planned: Callable[..., Any], tmux: BackendLimits):
    plan = planned(program("place('cpu', per_machine=2)"), tmux)
    assert [str(each) for each in plan.unused if each.setting == "place"] == ["place (p)"]
