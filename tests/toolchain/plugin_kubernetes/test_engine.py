"""The real engine drives the stand-in plugin: a whole life, secrets in the state, what failed is kept."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from symphony.engine import binary, environment
from toolchain.kubernetes.fixtures import Access
from toolchain.plugin_kubernetes.install import install

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

PROGRAM = """
import os, pulumi, pulumi_kubernetes as k8s
from pulumi_kubernetes.core.v1 import ConfigMap, Pod, Secret
at = k8s.Provider("at", kubeconfig=os.environ["TEST_KUBECONFIG"], namespace=os.environ["TEST_NAMESPACE"])
opts = pulumi.ResourceOptions(provider=at)
quick = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
"""
POD = """
metadata = {{"name": "pod", "annotations": {annotations}, "labels": {labels}}}
Pod("pod", metadata=metadata, opts=pulumi.ResourceOptions(
    provider=at, replace_on_changes=["spec"], custom_timeouts=pulumi.CustomTimeouts(create="2s")),
    spec={{"node_selector": {{"no": "node"}}, "containers": [{{"name": "c", "image": "{image}"}}]}})
"""


class Project:
    """A project with one stack in a store of its own."""

    def __init__(self, folder: Path, engine: binary.Engine, variables: dict[str, str]) -> None:
        self.folder = folder
        self._pulumi = str(engine.pulumi)
        path = f"{engine.folder}{os.pathsep}{os.environ['PATH']}"
        self._environment = {
            **os.environ,
            "PATH": path,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            **environment.for_python(),
            **variables,
        }
        (folder / "Pulumi.yaml").write_text("name: whole\nruntime: python\n")

    def pulumi(self, *words: str, ok: bool = True) -> str:
        done = subprocess.run(
            [self._pulumi, *words, "--non-interactive"],
            cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert (done.returncode == 0) is ok, done.stdout + done.stderr
        return done.stdout + done.stderr

    def up(self, program: str, *words: str, ok: bool = True) -> str:
        (self.folder / "__main__.py").write_text(PROGRAM + program)
        return self.pulumi("up", "--yes", *words, ok=ok)

    def state(self) -> dict[str, Any]:
        """Every resource of the state by name."""
        result = json.loads(self.pulumi("stack", "export"))["deployment"]["resources"]
        return {each["urn"].rsplit("::", 1)[1]: each for each in result}


@pytest.fixture
def project(tmp_path: Path, engine: binary.Engine, cluster: Access, namespace: str) -> Project:
    (tmp_path / "home" / "state").mkdir(parents=True)
    folder = tmp_path / "project"
    folder.mkdir()
    install()
    made = Project(folder, engine, {"TEST_KUBECONFIG": cluster.kubeconfig, "TEST_NAMESPACE": namespace})
    made.pulumi("stack", "init", "dev")
    return made


def pod(image: str = "none:1", labels: str = "{}", annotations: str = "quick") -> str:
    return POD.format(image=image, labels=labels, annotations=annotations)


def test_a_programs_whole_life(project: Project, live: Callable[[str, str], dict[str, Any]]):
    output = project.up(pod() + 'ConfigMap("auto", data={"k": "v"}, opts=opts)')
    assert "stand-in" in output
    assert "4 created" in output.replace("+ ", "")
    uid = live("pod", "pod")["metadata"]["uid"]
    automatic = project.state()["auto"]["outputs"]["metadata"]["name"]
    assert live("configmap", automatic)["data"] == {"k": "v"}

    project.up(pod() + 'ConfigMap("auto", data={"k": "v"}, opts=opts)', "--expect-no-changes")

    project.up(pod(labels='{"a": "b"}') + 'ConfigMap("auto", data={"k": "w"}, opts=opts)')
    assert live("pod", "pod")["metadata"]["uid"] == uid, "a label changes in place"
    assert live("pod", "pod")["metadata"]["labels"] == {"a": "b"}
    assert live("configmap", automatic) == {}, "replaced under a new name"

    project.up(pod(image="none:2"))
    assert live("pod", "pod")["metadata"]["uid"] != uid, "an image does not"
    assert live("pod", "pod")["spec"]["containers"][0]["image"] == "none:2"

    project.pulumi("destroy", "--yes")
    assert live("pod", "pod") == {}


@pytest.mark.thorough
def test_secrets_are_encrypted_in_the_state(project: Project, live: Callable[[str, str], dict[str, Any]]):
    project.up('Secret("it", metadata={"name": "it"}, string_data={"k": "verysecret"}, opts=opts)')
    assert live("secret", "it")["data"] == {"k": "dmVyeXNlY3JldA=="}
    stored = "".join(path.read_text() for path in (project.folder.parent / "home/state").rglob("*.json"))
    assert "whole::kubernetes:core/v1:Secret" in stored
    assert "verysecret" not in stored
    assert "dmVyeXNlY3JldA" not in stored


@pytest.mark.thorough
def test_a_preview_changes_nothing(project: Project, live: Callable[[str, str], dict[str, Any]]):
    (project.folder / "__main__.py").write_text(PROGRAM + pod())
    assert "3 to create" in project.pulumi("preview")
    assert live("pod", "pod") == {}


@pytest.mark.thorough
def test_what_did_not_become_ready_is_kept_and_deleted(
    project: Project, live: Callable[[str, str], dict[str, Any]]
):
    output = project.up(pod(annotations="{}"), ok=False)
    assert "node(s)" in output, "the scheduler's words"
    assert project.state()["pod"]["id"].endswith("/pod")
    project.pulumi("destroy", "--yes")
    assert live("pod", "pod") == {}


@pytest.mark.thorough
def test_a_refresh_forgets_what_is_gone_and_up_makes_it_again(
    project: Project, live: Callable[[str, str], dict[str, Any]], kubectl: Any, namespace: str
):
    project.up(pod())
    kubectl("-n", namespace, "delete", "pod", "pod")
    project.pulumi("refresh", "--yes")
    assert "pod" not in project.state()
    project.up(pod())
    assert live("pod", "pod")


@pytest.mark.thorough
def test_import(project: Project, kubectl: Any, namespace: str):
    kubectl("-n", namespace, "create", "configmap", "theirs", "--from-literal=k=v")
    imported = f'pulumi.ResourceOptions(provider=at, import_="{namespace}/theirs")'
    project.up(f'ConfigMap("it", metadata={{"name": "theirs"}}, data={{"k": "v"}}, opts={imported})')
    assert project.state()["it"]["id"] == f"{namespace}/theirs"
