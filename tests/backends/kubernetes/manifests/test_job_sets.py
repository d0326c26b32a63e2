"""`symphony:controller: JobSet` on the real cluster, with the controller of the JobSet project."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings

from symphony.backends.kubernetes import target
from symphony.backends.kubernetes.api.client import Refused, client_of
from symphony.backends.kubernetes.manifests import controllers, render
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.build import build_plan, problems
from symphony.plan.checked_spec import checked
from symphony.spec.experiment import ExperimentSpec
from tests.backends.kubernetes.diagnosis.test_why import steps
from tests.backends.kubernetes.generated import experiments
from tests.backends.kubernetes.manifests.test_jobs import pods, runs_answers_and_goes_as_pods_do
from tests.backends.kubernetes.test_runs import Live, becomes, up
from tests.backends.kubernetes.validation.test_accepted import ALL_CHECKS, FILES
from tests.sandbox import Sandbox, wait_for
from toolchain.kubernetes.addons import job_set
from toolchain.kubernetes.api import Api
from toolchain.kubernetes.control_plane import accounts
from toolchain.kubernetes.fixtures import Access as Cluster
from toolchain.kubernetes.layout import Layout

EMPTY = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]


def test_a_job_set_that_is_not_installed_is_one_line(
    own: Cluster, sandbox: Sandbox, stack: str, live: Live
) -> None:
    sandbox.config(stack, controller="JobSet")
    output = up(sandbox, stack, 'with Experiment("e") as e: e.new_process("a", command="true")', code=2)
    assert "JobSet is not installed in this cluster (symphony:controller)." in output
    assert "set symphony:controller to Job" in output
    assert live("pods", stack) == []


# Of one file no two tests run at once, and the one above, which needs a cluster without, comes before.
@pytest.fixture(scope="module")
def installed(own: Cluster) -> Iterator[None]:
    """A cluster that keeps JobSets."""
    with job_set.installed(Layout.default()):
        yield


@pytest.fixture
def sets(installed: None, sandbox: Sandbox, stack: str) -> str:
    """A stack whose pods are made by JobSets."""
    sandbox.config(stack, controller="JobSet")
    return stack


@pytest.mark.thorough
def test_it_runs_answers_and_goes_as_pods_do(sandbox: Sandbox, sets: str, live: Live) -> None:
    runs_answers_and_goes_as_pods_do(sandbox, sets, live, "jobs", "jobsets")


@pytest.mark.thorough
def test_a_failure_ends_it_and_the_next_up_starts_it_again(sandbox: Sandbox, sets: str, live: Live) -> None:
    program = 'with Experiment("e") as e: e.new_process("a", command="sh", args=["-c", "echo no; exit 3"])'
    up(sandbox, sets, program)
    assert becomes(sandbox, sets, "a", "failed")["why"] == "exit 3: no"
    assert steps(sandbox, sets, "a")["exit"]["more"] == ["no"]
    wait_for(lambda: controllers.has_failed(live("jobsets", sets)[0]), 20, "the JobSet gives up")
    before = pods(live, sets)
    up(sandbox, sets, program)
    assert pods(live, sets)["a"] != before["a"]
    assert becomes(sandbox, sets, "a", "failed")["why"] == "exit 3: no"


@pytest.mark.thorough
def test_a_failure_is_tried_again_on_request_and_every_try_can_be_read(
    sandbox: Sandbox, sets: str, live: Live
) -> None:
    up(
        sandbox,
        sets,
        """
with Experiment("e") as e:
    e.new_process("a", command="sh", args=["-c", "echo try; exit 3"]).restart_policy("OnFailure")
""",
    )
    wait_for(lambda: len(live("pods", sets)) > 1, 60, "a second try")
    becomes(sandbox, sets, "a", "waiting")
    wait_for(lambda: sandbox.symphony("logs", sets).out.splitlines().count("try") > 1, 20, "both can be read")


@pytest.mark.thorough
def test_one_that_a_quota_keeps_from_its_pod_is_told_so(
    sandbox: Sandbox, sets: str, kubectl: Callable[..., str]
) -> None:
    program = 'with Experiment("e") as e: e.new_process("a", command="sleep", args=["999"])'
    up(sandbox, sets, program, code=0)
    kubectl("-n", sets, "create", "quota", "few", "--hard=pods=1")
    kubectl("-n", sets, "wait", "--for=jsonpath={.status.used.pods}=1", "quota/few", "--timeout=30s")
    output = up(sandbox, sets, program + '; e.new_process("b", command="true")', code=1)
    assert "exceeded quota: few" in output
    created = steps(sandbox, sets, "b")["created"]
    assert created["broken"]
    assert "exceeded quota: few" in created["what"]


def test_the_published_role_is_enough(
    sandbox: Sandbox, sets: str, own: Cluster, kubectl: Callable[..., str], live: Live
) -> None:
    kubectl("create", "namespace", sets)
    kubectl("-n", sets, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    accounts.grant(Api(Layout.default()), accounts.ORDINARY, sets)
    sandbox.config(sets, createNamespace="false", **{"kubernetes:kubeconfig": own.user_kubeconfig})
    up(sandbox, sets, 'with Experiment("e") as e: e.new_process("a", command="sleep", args=["999"])', code=0)
    assert list(steps(sandbox, sets, "a"))[-1] == "ready"
    sandbox.symphony("delete", sets, "-y", timeout=120)
    assert live("pods", sets) == live("jobsets", sets) == []


@pytest.mark.thorough
def test_what_is_planned_is_accepted(
    installed: None, own: Cluster, stack: str, kubectl: Callable[..., str]
) -> None:
    kubectl("create", "namespace", stack)
    client = client_of(own.kubeconfig, "")
    chosen = Settings(image=own.shell_image, controller="JobSet")
    path = controllers.path_of("JobSet", stack)
    judged: list[str] = []

    @settings(
        max_examples=100,
        deadline=None,
        suppress_health_check=ALL_CHECKS,
        derandomize=True,
    )
    @given(experiments())
    def judge(spec: ExperimentSpec) -> None:
        where = target.target(checked(spec), chosen, stack, secrets=dict.fromkeys(FILES, 10))
        if problems(checked(spec), where):
            return
        made = render.render(build_plan(checked(spec), where), chosen, "test/x#1", files=FILES).all()
        for manifest in [each for each in made if each["kind"] == "JobSet"]:
            client.request("POST", path, {"dryRun": "All", "fieldValidation": "Strict"}, manifest)
            judged.append(manifest["metadata"]["name"])

    judge()
    assert len(judged) > 10
    wrong = {**EMPTY, "metadata": {"name": "x"}, "spec": {"replicatedJobs": [{"replica": 1}]}}
    with pytest.raises(Refused, match="replica"):
        client.request("POST", path, {"dryRun": "All", "fieldValidation": "Strict"}, wrong)
