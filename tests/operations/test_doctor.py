"""Findings of `symphony doctor`: plugin, kubeconfig, registries, GKE, isolation; it changes nothing."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from symphony.backends.kubernetes import prerequisites
from symphony.backends.registry import Finding
from symphony.cli.doctor import examine, is_ready
from symphony.engine import environment
from symphony.engine.run import start
from toolchain import plugins

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(autouse=True)
def without_kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set KUBECONFIG to a missing file; the homes of the test (`own_home`) have no plugin."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))


def finding(name: str) -> Finding:
    return next(each for each in examine() if each.name == f"{name} (optional)")


def test_without_kubernetes_doctor_reports_ready() -> None:
    plugin, config = finding("kube plugin"), finding("kubeconfig")
    assert (plugin.there, plugin.get) == (False, "`symphony up` installs it")
    assert (config.there, config.get) == (False, "export KUBECONFIG=FILE")
    assert is_ready([plugin, config])


@pytest.mark.parametrize("works", [True, False])
def test_doctor_says_if_runs_are_isolated_from_other_users(
    monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    monkeypatch.setattr(start, "is_possible", lambda: works)
    # If isolation works, the version lists the backends whose runs are isolated.
    isolated = finding("isolated runs")
    assert isolated.there == works
    assert ("tmux" in isolated.version) == works
    assert "other users" in isolated.get


def test_doctor_names_a_missing_docker_credential_helper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text('{"auths": {"r.io": {"auth": "bWU6eA=="}}}')
    assert (finding("registry credentials").there, finding("registry credentials").place) == (True, "r.io")
    (tmp_path / "config.json").write_text('{"credsStore": "nowhere"}')
    row = finding("registry credentials")
    assert (row.there, row.get) == (False, "docker-credential-nowhere is not on PATH")


def test_doctor_checks_the_registry_of_each_stack_in_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    (tmp_path / "Pulumi.rl.yaml").write_text("config:\n  symphony:registry: localhost:1/team\n")
    (tmp_path / "Pulumi.broken.yaml").write_text("config: [\n")
    monkeypatch.chdir(tmp_path)
    row = finding("registry localhost:1")
    assert not row.there
    assert row.get.startswith("the registry localhost:1 does not answer: connection refused")


@pytest.mark.thorough
def test_doctor_lists_gke_prerequisites_with_remedies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    rows = ("gcloud", "auth plugin", "gcp project", "gcp plugin")
    assert [(finding(row).there, finding(row).get) for row in rows] == [
        (False, "cloud.google.com/sdk/docs/install"),
        (False, "gcloud components install gke-gcloud-auth-plugin"),
        (False, "gcloud config set project PROJECT"),
        (False, "`symphony up` installs it"),
    ]
    assert is_ready(list(map(finding, rows)))
    programs = [tmp_path / "bin" / name for name in ("gcloud", "gke-gcloud-auth-plugin")]
    project = tmp_path / "gcloud" / "configurations" / "config_work"
    for file, text in ((project, "[core]\nproject = mine\n"), *((each, "#!/bin/sh\n") for each in programs)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o700)
    (tmp_path / "gcloud" / "active_config").write_text("work\n")
    place = plugins.install(prerequisites.GCP)
    assert [(finding(row).there, finding(row).version, finding(row).place) for row in rows] == [
        (True, "", str(programs[0])),
        (True, "", str(programs[1])),
        (True, "mine", str(project)),
        (True, metadata.version("pulumi-gcp"), str(place)),
    ]


def test_a_plugin_of_another_version_counts_as_missing() -> None:
    other = prerequisites.plugin_place(prerequisites.KUBERNETES, "1.0.0")
    other.parent.mkdir(parents=True)
    other.write_bytes(b"\x7fELF")
    assert not finding("kube plugin").there


def test_doctor_reads_the_kubeconfig_without_running_its_plugin_or_contacting_the_server(
    tmp_path: Path,
) -> None:
    made = tmp_path / "made"
    content = {
        "clusters": [{"name": "c", "cluster": {"server": "https://10.255.255.1:6443"}}],
        "contexts": [{"name": "mine", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"exec": {"command": "touch", "args": [str(made)]}}}],
        "current-context": "mine",
    }
    (tmp_path / "config").write_text(json.dumps(content))
    result = finding("kubeconfig")
    assert (result.there, result.version, result.place) == (True, "context mine", str(tmp_path / "config"))
    assert not made.exists()

    (tmp_path / "config").write_text(json.dumps({**content, "current-context": "other"}))
    assert finding("kubeconfig").get == 'the kubeconfig has no context "other". Use one of: mine.'
    (tmp_path / "config").write_text("]")
    assert "the kubeconfig is not valid YAML" in finding("kubeconfig").get


def test_doctor_creates_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path / "home"))
    for name in ("PULUMI_BACKEND_URL", *environment.PASSPHRASES):
        monkeypatch.delenv(name, raising=False)
    assert {"state", "passphrase"} <= {finding.name for finding in examine() if finding.there}
    assert not (tmp_path / "home").exists()
