"""After `up`: a foreign namespace of the same name, an edited ConfigMap, an expired token."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.backends.kubernetes.status.test_troubles import SLEEPER
from tests.backends.kubernetes.test_runs import Live, up
from tests.sandbox import Sandbox
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(300)]


def test_a_namespace_recreated_by_another_user_is_left_untouched(
    sandbox: Sandbox, stack: str, kubectl: Callable[..., str], live: Live
) -> None:
    up(sandbox, stack, SLEEPER, code=0)
    kubectl("delete", "namespace", stack, "--timeout=60s")
    kubectl("create", "namespace", stack)
    kubectl("-n", stack, "create", "configmap", "theirs")
    for words in (("delete", stack, "-y"), ("logs", stack), ("exec", stack, "a", "--", "true")):
        ran = sandbox.symphony(*words, code=2)
        assert f"the namespace {stack} does not belong to {stack}" in ran.err
        assert len(ran.err.splitlines()) == 1
    assert "theirs" in [each["metadata"]["name"] for each in live("configmaps", stack)]
    assert f"the namespace {stack} does not belong to {stack}" in up(sandbox, stack, SLEEPER, code=2)
    sandbox.pulumi("stack", "rm", stack, "--force", "--yes", "--preserve-config")
    assert stack not in sandbox.symphony("ls").out
    assert "theirs" in [each["metadata"]["name"] for each in live("configmaps", stack)]


@pytest.mark.parametrize(
    ("edit", "told"),
    [({"train.yaml": "lr: 99\n", "more": "x"}, "train.yaml changed"), ({"more": "x"}, "more")],
)
def test_up_restores_an_edited_config_map_once(
    edit: dict[str, str],
    told: str,
    sandbox: Sandbox,
    stack: str,
    kubectl: Callable[..., str],
    live: Live,
) -> None:
    (sandbox.folder / "train.yaml").write_text("lr: 1\n")
    program = SLEEPER.replace('Experiment("e")', 'Experiment("e", configs=["train.yaml"])')
    up(sandbox, stack, program, code=0)
    patch = json.dumps({"data": edit})
    kubectl("-n", stack, "patch", "configmap", "symphony-configs", "--type=merge", "-p", patch)
    rows = sandbox.symphony("drift", stack, "--json", code=1).json
    assert {row["field"]: row["lives"] for row in rows} == {f"data.{key}": edit[key] for key in edit}
    assert told in up(sandbox, stack, program, code=0)
    (config_map,) = [
        each for each in live("configmaps", stack) if each["metadata"]["name"] == "symphony-configs"
    ]
    assert config_map["data"] == {"train.yaml": "lr: 1\n"}
    assert "Nothing changes" in up(sandbox, stack, program, code=0)
    (again,) = [each for each in live("configmaps", stack) if each["metadata"]["name"] == "symphony-configs"]
    assert again["metadata"]["resourceVersion"] == config_map["metadata"]["resourceVersion"]


def test_every_command_reports_an_expired_token(
    sandbox: Sandbox, stack: str, cluster: Cluster, tmp_path: Path, live: Live
) -> None:
    file = tmp_path / "kubeconfig"
    content: dict[str, Any] = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    file.write_text(yaml.safe_dump(content))
    sandbox.config(stack, **{"kubernetes:kubeconfig": str(file)})
    up(sandbox, stack, SLEEPER, code=0)
    expired = {**content, "users": [{**content["users"][0], "user": {"token": "expired-long-ago"}}]}
    file.write_text(yaml.safe_dump(expired))
    commands = (
        ("process", stack),
        ("logs", stack),
        ("exec", stack, "a", "--", "true"),
        ("plan", stack),
        ("up", stack, "-y"),
        ("delete", stack, "-y"),
    )
    for words in commands:
        ran = sandbox.symphony(*words, code=1)
        assert "rejected your credentials" in ran.err, words
        assert len(ran.err.splitlines()) == 1, words
    file.write_text(yaml.safe_dump(content))
    sandbox.symphony("delete", stack, "-y")
    assert live("pods", stack) == []
