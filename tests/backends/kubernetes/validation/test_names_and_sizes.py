"""Names and sizes that no cluster takes are refused before anything starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symphony import Experiment
from symphony.backends.kubernetes import target
from symphony.backends.kubernetes.api.client import Client, client_of, path_of
from symphony.backends.kubernetes.settings import Settings
from symphony.backends.kubernetes.validation import declaration
from symphony.plan.build import build_plan, problems
from symphony.plan.names import is_label
from tests.backends.kubernetes.status.test_troubles import place
from toolchain.kubernetes.fixtures import Access as Cluster

__all__ = ["place"]

NAMES = st.one_of(
    st.text(max_size=70),
    st.from_regex(r"[a-z0-9.-]{1,80}", fullmatch=True),
    st.sampled_from(["A", "a_b", "-a", "a-", "a.b", "1a", "ä", "a" * 63, "a" * 64, "kube-system"]),
)


@given(NAMES, NAMES)
def test_a_name_is_taken_as_it_is_or_refused_with_a_remedy(first: str, second: str) -> None:
    """A name is bent only into one that is known as well, and no two meet."""
    experiment = Experiment("e")
    experiment.new_process(first)
    experiment.new_process_group(second).new_process("member")
    where = target.target(experiment.spec, Settings(image="x"), "e")
    if result := problems(experiment.spec, where):
        assert all(problem.what and problem.remedy for problem in result)
        return
    plan = build_plan(experiment.spec, where)
    paths = [plan.renamed.get(path, path) for path in (first, f"{second}/member")]
    assert [each.path for each in plan.processes] == paths
    assert all(is_label(part) for path in paths for part in path.split("/"))


def test_more_than_a_pod_can_hold_is_refused_before_anything_starts() -> None:
    (problem,) = _judged(declaration.MAX_POD + 1)
    assert "more than the" in problem


@pytest.mark.kubernetes
@pytest.mark.timeout(300)
def test_the_most_that_is_planned_the_server_takes(stack: str, cluster: Cluster, place: str) -> None:
    """With one letter less than is refused, twice escaped on its way."""
    from symphony.backends.kubernetes.manifests import render

    experiment = _wordy(declaration.MAX_POD - 100)
    plan = build_plan(experiment.spec, target.target(experiment.spec, Settings(image="x"), place))
    client: Client = client_of(cluster.kubeconfig, "")
    (pod,) = [
        each for each in render.render(plan, Settings(image="x"), "t/x#1").all() if each["kind"] == "Pod"
    ]
    client.request("POST", path_of("pods", place), {"dryRun": "All"}, pod)


def test_secrets_that_no_secret_can_hold_are_refused_before_anything_starts() -> None:
    experiment = Experiment("e", secrets=["large"])
    experiment.new_process("a")
    for size, refused in ((1_000_000, False), (1 << 21, True)):
        where = target.target(experiment.spec, Settings(image="x"), "e", secrets={"large": size})
        result = [each.what for each in problems(experiment.spec, where)]
        assert bool(result) is refused, result


def _wordy(size: int) -> Experiment:
    experiment = Experiment("e")
    words, rest = divmod(size, 100_000)
    experiment.new_process("a", args=["x" * 100_000] * words + ["x" * rest])
    return experiment


def _judged(size: int) -> list[str]:
    spec = _wordy(size).spec
    return [each.what for each in problems(spec, target.target(spec, Settings(image="x"), "e"))]
