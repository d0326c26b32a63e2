"""Declarations that Kubernetes would reject are refused before anything starts, with a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symphony import Experiment
from symphony.backends.kubernetes import expand
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.build import build_plan
from symphony.plan.names import is_label
from tests.plans import problems

Declare = Callable[[Experiment], object]


def messages(
    declare: Declare, namespace: str = "rl", secrets: dict[str, int] | None = None, **chosen: str
) -> list[str]:
    experiment = Experiment("rl", secrets=list(secrets or {}))
    declare(experiment)
    settings = Settings(image="rl", **chosen)  # pyright: ignore[reportArgumentType]
    where = expand.offline_limits(experiment.spec, settings, namespace, secrets)
    result = problems(experiment.spec, where)
    assert all(problem.remedy for problem in result)
    return [problem.what for problem in result]


def test_features_that_jobs_cannot_have_are_refused():
    jobs = Experiment("rl", primary="a", stop_after="8h", idle_after="30m")
    jobs.new_process("a")
    cases: list[tuple[Experiment, dict[str, Any], list[str]]] = [
        (jobs, {"controller": "Job"}, ["primary", "stop_after", "idle_after"]),
        (jobs, {}, []),
    ]
    for experiment, chosen, words in cases:
        settings = Settings(image="rl", **chosen)
        refused = problems(experiment.spec, expand.offline_limits(experiment.spec, settings, "rl"))
        assert [word for word in words if any(word in each.what for each in refused)] == words
        assert len(refused) == len(words)


CASES: list[tuple[str, Declare]] = [
    ("with a constraint", lambda e: e.new_process("a").place(constraint="fast")),
    ("with a partition", lambda e: e.new_process("a").place(partition="gpu")),
    ("begins with a digit", lambda e: e.new_process("a").binds("1st")),
    ("as image", lambda e: e.new_process("a", image="not an image")),
    ("sets the label", lambda e: e.new_process("a").add_label("symphony/pod", "x")),
    ("a hostPath volume", lambda e: e.new_process("a").mount_host_path("/x", "/x")),
    (
        "two different volumes",
        lambda e: (
            p := e.new_process("a"),
            p.mount_nfs("s", "/a", "/a", name="v"),
            p.mount_nfs("s", "/b", "/b", name="v"),
        ),
    ),
    ("env X of a contains the character U+0085", lambda e: e.new_process("a", env={"X": "a\x85b"})),
    ("args of a contains the character U+007F", lambda e: e.new_process("a", args=["\x7f"])),
    ("cmds of a contains the character U+FFFE", lambda e: e.new_process("a", cmds=["echo \ufffe"])),
    ("start_dir of a contains", lambda e: e.new_process("a", start_dir="/a\x85b")),
    ("node_selector of a contains", lambda e: e.new_process("a").node_selector("k", "b\x85")),
    ("readiness_probe of a contains", lambda e: e.new_process("a").readiness_probe(exec=["sh", "\x7f"])),
    ("mounts of a contains", lambda e: e.new_process("a").mount_nfs("s", "/a\x85", "/a")),
    ("pod_yml of a contains", lambda e: e.new_process("a").pod_yml.update(spec={"hostname": "a\x85"})),
    ("cmds and preamble_cmds of a have", lambda e: e.new_process("a", cmds=["# " + "x" * 70_000] * 2)),
    ("bytes of commands", lambda e: e.new_process("a", args=["x" * 100_000] * 11)),
    ("sets metadata.name", lambda e: e.new_process("a").pod_yml.update(metadata={"name": "b"})),
    ("asks for hostNetwork", lambda e: e.new_process("a").pod_yml.update(spec={"hostNetwork": True})),
    (
        "asks for privileged",
        lambda e: e.new_process("a").container_yml.update(securityContext={"privileged": True}),
    ),
    (
        "b restarts with a",
        lambda e: (
            e.new_process("a"),
            e.new_process("b", restart_policy="Always").depends_on("a", restart_with=True),
        ),
    ),
    (
        "train-0 sets restart_policy",
        lambda e: e.new_process("train", replicas=2, rendezvous=True, restart_policy="Always"),
    ),
    ("sets name", lambda e: e.new_process("a").container_yml.update(name="b")),
    ("symphony-secrets", lambda e: e.new_process("a").mount_empty_dir("symphony-secrets", False, "/x")),
    ("symphony-configs", lambda e: e.new_process("a").mount_empty_dir("symphony-configs", False, "/x")),
]


@pytest.mark.parametrize(("words", "declare"), CASES, ids=[words for words, _ in CASES])
def test_each_invalid_declaration_is_one_problem(words: str, declare: Declare) -> None:
    (what,) = messages(declare)
    assert words in what


@pytest.mark.parametrize("namespace", ["default", "kube-system", "kube-x", "gke-a", "gmp-b", "istio-system"])
def test_system_namespaces_are_refused(namespace: str) -> None:
    (what,) = messages(lambda e: e.new_process("a"), namespace)
    assert "belongs to the cluster" in what


def test_secrets_too_large_for_a_kubernetes_secret_are_refused() -> None:
    (what,) = messages(lambda e: e.new_process("a"), secrets={"/a": 1_000_000, "/b": 100_000})
    assert re.search("1100000 bytes, more than", what)
    (what,) = messages(lambda e: e.new_process("a").mount_secret("s", "/etc/secrets"), secrets={"/a": 1})
    assert "the experiment's secrets" in what


def test_config_files_that_do_not_fit_in_a_config_map_are_refused() -> None:
    def result(configs: list[str], sizes: dict[str, int], mount: str = "/x") -> list[str]:
        experiment = Experiment("rl", configs=configs)
        experiment.new_process("a").mount_empty_dir("d", False, mount)
        where = expand.offline_limits(experiment.spec, Settings(image="rl"), "rl", sizes)
        return [problem.what for problem in problems(experiment.spec, where)]

    assert result(["train.yaml"], {"train.yaml": 1_000_000}) == []
    (what,) = result(["/a", "/b"], {"/a": 1_000_000, "/b": 100_000})
    assert "the config files have 1100000 bytes, more than a Kubernetes ConfigMap can hold" in what
    (what,) = result(["a b"], {"a b": 1})
    assert "the config file" in what
    (what,) = result(["a"], {"a": 1}, "/etc/configs/")
    assert "the experiment's configs" in what


def test_restart_policy_always_is_refused_in_a_job() -> None:
    def always(experiment: Experiment) -> None:
        experiment.new_process("a").restart_policy("Always")
        group = experiment.new_process_group("g")
        group.restart_policy("Always")
        group.new_process("w")

    assert messages(always) == []
    assert len(messages(always, controller="Job")) == 2
    assert "sets restart_policy" in messages(always, controller="Job")[0]
    assert messages(lambda e: e.new_process("a").restart_policy("OnFailure"), controller="Job") == []


def test_mount_host_path_is_allowed_at_the_privileged_level() -> None:
    assert messages(lambda e: e.new_process("a").mount_host_path("/x", "/x"), pod_security="privileged") == []


def test_correct_declarations_have_no_problems() -> None:
    def declare(experiment: Experiment) -> None:
        process = experiment.new_process("a", image="localhost:5000/a/b-c:v1.2")
        process.add_toleration(operator="Exists")
        process.resource_request(cpu="500m", memory="1Gi")
        process.resource_limit(cpu=1, memory="2G", gpu=1)
        process.add_label("a.test/b", "")
        process.container_yml["securityContext"] = {"privileged": False}

    assert messages(declare) == []


def test_the_port_of_a_service_depends_only_on_its_name_unless_two_collide() -> None:
    def chosen(*services: str) -> dict[str, int]:
        experiment = Experiment("rl")
        for name in services:
            experiment.new_process(f"p-{name}").binds(name)
        return expand.choose_ports(experiment.spec)

    assert chosen("a")["a"] == chosen("z", "a", "b")["a"]
    experiment = Experiment("rl")
    many = [f"s{i}" for i in range(500)]
    process = experiment.new_process("p")
    process.binds(*many, {"fixed": chosen("s1")["s1"]})
    result = expand.choose_ports(experiment.spec)
    assert len({*result.values(), chosen("s1")["s1"]}) == 501
    assert all(20_000 <= port < 30_000 for port in result.values())


def test_names_in_a_shared_namespace_are_shorter_by_the_prefix_of_the_experiment() -> None:
    def declare(e: Experiment) -> None:
        e.new_process("p" * 63).binds("s" * 63)
        e.new_process_group("g" * 60).new_process("w" * 63)
        e.new_process("n" * 60)

    assert messages(declare) == []
    result = messages(declare, shared_as="rl")
    assert [re.findall(r'"rl-(.)', each)[0] for each in result] == ["p", "s"]
    assert "66 characters, more than 63" in result[0]
    assert "cannot be called" in messages(lambda e: e.new_process("a"), shared_as="Mine")[0]


NAMES = st.one_of(
    st.text(max_size=70),
    st.from_regex(r"[a-z0-9.-]{1,80}", fullmatch=True),
    st.sampled_from(["A", "a_b", "-a", "a-", "a.b", "1a", "ä", "a" * 63, "a" * 64, "kube-system"]),
)


@given(NAMES, NAMES)
def test_names_become_distinct_valid_pod_names(first: str, second: str) -> None:
    """A name that cannot is refused with a remedy."""
    experiment = Experiment("e")
    experiment.new_process(first)
    experiment.new_process_group(second).new_process("member")
    where = expand.offline_limits(experiment.spec, Settings(image="x"), "e")
    if result := problems(experiment.spec, where):
        assert all(problem.what and problem.remedy for problem in result)
        return
    plan = build_plan(experiment.spec, where)
    paths = [plan.renamed.get(path, path) for path in (first, f"{second}/member")]
    assert [each.path for each in plan.processes] == paths
    assert all(is_label(part) for path in paths for part in path.split("/"))
