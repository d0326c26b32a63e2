"""The parts of the stand-in plugin that need no cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.plugin_kubernetes import immutable, settings, state
from toolchain.plugin_kubernetes.api import access, readiness
from toolchain.plugins import differences
from toolchain.plugins.failures import Failure
from toolchain.plugins.values import UNKNOWN, Secret, from_struct, mark_like, plain, to_struct

leaves = st.one_of(st.text(), st.booleans(), st.integers(-(2**53), 2**53), st.builds(Secret, st.text()))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
)
objects = st.dictionaries(st.text(max_size=8), trees, max_size=5)


@given(objects)
def test_values_survive_the_wire(properties: dict[str, Any]):
    assert from_struct(to_struct(properties)) == properties


def test_unknown_survives_the_wire_and_null_does_not():
    assert from_struct(to_struct({"a": UNKNOWN, "b": None, "c": [UNKNOWN]})) == {"a": UNKNOWN, "c": [UNKNOWN]}


@given(objects)
def test_marking_like_the_inputs_restores_every_secret(properties: dict[str, Any]):
    assert mark_like(plain(properties), properties) == properties


@given(objects)
def test_no_difference_to_itself(properties: dict[str, Any]):
    assert differences.changes(plain(properties), plain(properties), ()) == []


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


def pod(**spec: Any) -> dict[str, Any]:
    return {**POD, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


@pytest.mark.parametrize(
    ("new", "path", "replaces"),
    [
        (pod(containers=[{"name": "c", "image": "i:2"}]), "spec.containers[0].image", True),
        (
            pod(containers=[{"name": "c", "image": "i:1"}, {"name": "d", "image": "x"}]),
            "spec.containers[1]",
            True,
        ),
        (pod(nodeSelector={"a.b/c": "1"}), "spec.nodeSelector", True),
        (pod(activeDeadlineSeconds=3), "spec.activeDeadlineSeconds", False),
        ({**pod(), "metadata": {"name": "b"}}, "metadata.name", True),
        ({**pod(), "metadata": {"name": "a", "labels": {"a.b/c": "1"}}}, "metadata.labels", False),
    ],
)
def test_what_of_a_pod_needs_a_new_one(new: dict[str, Any], path: str, replaces: bool):
    (change,) = differences.changes(pod(), new, immutable.fields("v1", "Pod", frozenset()))
    assert (change.written(), change.replaces) == (path, replaces)


def test_paths_with_dots_are_quoted():
    old, new = {"labels": {"a.b/c": "1"}}, {"labels": {"a.b/c": "2"}}
    assert [each.written() for each in differences.changes(old, new, ())] == ['labels["a.b/c"]']


@pytest.mark.parametrize(
    ("wanted", "live", "ready"),
    [
        ("jsonpath={.metadata.uid}", {"metadata": {"uid": "1"}}, True),
        ("jsonpath={.metadata.uid}", {"metadata": {}}, False),
        ("jsonpath={.status.phase}=Running", {"status": {"phase": "Running"}}, True),
        ("jsonpath={.status.phase}=Running", {"status": {"phase": "Pending"}}, False),
        ("jsonpath={.spec.ports[*].port}=80", {"spec": {"ports": [{"port": 79}, {"port": 80}]}}, True),
        ("condition=Ready", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, True),
        ("condition=Ready=False", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, False),
        ('["condition=Ready", "jsonpath={.a}"]', {"a": 1}, False),
    ],
)
def test_wait_for(wanted: str, live: dict[str, Any], ready: bool):
    check = readiness.check_for({**POD, "metadata": {"annotations": {readiness.WAIT_FOR: wanted}}})
    assert check is not None
    assert (check(live) is None) is ready


def test_wait_for_that_nobody_understands_is_refused():
    with pytest.raises(Failure, match="waitFor"):
        readiness.check_for({**POD, "metadata": {"annotations": {readiness.WAIT_FOR: "sunshine"}}})


def test_skip_await_waits_for_nothing():
    assert readiness.check_for({**POD, "metadata": {"annotations": {readiness.SKIP: "true"}}}) is None


def test_inputs_follow_the_live_object_only_where_the_program_spoke():
    old = {**pod(), "metadata": {"name": "a", "labels": {"x": "1"}}}
    now = {
        **pod(dnsPolicy="ClusterFirst"),
        "metadata": {"name": "a", "uid": "u", "labels": {"x": "2", "y": "3"}},
        "status": {"phase": "Running"},
    }
    now["spec"]["containers"][0]["imagePullPolicy"] = "Always"
    assert state.inputs_of(now, old) == {**pod(), "metadata": {"name": "a", "labels": {"x": "2"}}}


def test_a_secret_read_keeps_strings_as_strings_and_secret():
    old = {"apiVersion": "v1", "kind": "Secret", "stringData": Secret({"k": "v"})}
    now = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "dw=="}}
    assert state.inputs_of(now, old)["stringData"] == Secret({"k": "w"})


KUBECONFIG = """
current-context: one
contexts:
- {name: one, context: {cluster: a, user: u, namespace: n}}
- {name: two, context: {cluster: b, user: u}}
clusters:
- {name: a, cluster: {server: "http://a:1"}}
- {name: b, cluster: {server: "http://b:2/"}}
users:
- {name: u, user: {token: secret}}
"""


def test_kubeconfig_text_path_and_context(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(file))
    for given_as in (KUBECONFIG, str(file), ""):
        result = access.load(given_as)
        assert (result.server, result.namespace, result.headers["Authorization"]) == (
            "http://a:1",
            "n",
            "Bearer secret",
        )
        assert access.load(given_as, "two").server == "http://b:2"
    with pytest.raises(Failure, match="three"):
        access.load(KUBECONFIG, "three")


def test_kubeconfig_with_an_auth_plugin(tmp_path: Any):
    program = tmp_path / "auth"
    program.write_text('#!/bin/sh\necho \'{"status": {"token": "of-program"}}\'\n')
    program.chmod(0o755)
    text = KUBECONFIG.replace("{token: secret}", f"{{exec: {{command: {program}}}}}")
    assert access.load(text).headers["Authorization"] == "Bearer of-program"
    with pytest.raises(Failure, match="no-such-program"):
        access.load(KUBECONFIG.replace("{token: secret}", "{exec: {command: no-such-program}}"))


@pytest.mark.parametrize(
    ("old", "new", "another"),
    [
        ({"kubeconfig": KUBECONFIG}, {"kubeconfig": KUBECONFIG.replace("secret", "renewed")}, False),
        ({"kubeconfig": KUBECONFIG}, {"kubeconfig": KUBECONFIG, "context": "two"}, True),
        ({"clusterIdentifier": "x"}, {"clusterIdentifier": "x", "kubeconfig": KUBECONFIG}, False),
        ({"clusterIdentifier": "x"}, {"clusterIdentifier": "y"}, True),
        ({"kubeconfig": KUBECONFIG}, {"kubeconfig": UNKNOWN}, False),
    ],
)
def test_which_change_of_the_provider_means_another_cluster(old: Any, new: Any, another: bool):
    assert settings.names_another_cluster(old, new) is another


def test_who_asks_how_to_install_it_installs_nothing(tmp_path: Path):
    environment = {**os.environ, "PULUMI_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    words = [sys.executable, "-m", "toolchain.plugin_kubernetes.install", "--help"]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert "usage: python -m toolchain.plugin_kubernetes.install" in ran.stdout
    assert list(tmp_path.iterdir()) == []
