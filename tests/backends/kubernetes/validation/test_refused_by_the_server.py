"""`up` reports what the API server refuses: by webhook, by policy, by validation of container_yml."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.backends.kubernetes.status.test_troubles import SLEEPER, lines
from tests.backends.kubernetes.test_runs import up
from tests.sandbox import Sandbox, wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
Kubectl = Callable[..., str]


def ours(stack: str) -> dict[str, Any]:
    return {"matchLabels": {"symphony/experiment": stack}}


@pytest.mark.thorough
def test_up_quotes_a_failing_admission_webhook(
    sandbox: Sandbox, stack: str, applied: Callable[[dict[str, Any]], None]
) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "down.test.example",
        "clientConfig": {"url": "https://127.0.0.1:9/x"},
        "rules": [rule],
        "namespaceSelector": ours(stack),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 2,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    applied({**kind, "metadata": {"name": stack}, "webhooks": [hook]})
    time.sleep(1)  # The server takes a moment to know of it.
    (line,) = lines(up(sandbox, stack, SLEEPER, code=1))
    assert 'failed calling webhook "down.test.example"' in line


def test_up_quotes_a_denying_admission_policy(
    sandbox: Sandbox, stack: str, kubectl: Kubectl, applied: Callable[[dict[str, Any]], None]
) -> None:
    api = {"apiVersion": "admissionregistration.k8s.io/v1"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": ours(stack)},
        "validations": [{"expression": "false", "message": "not on a Saturday"}],
    }
    applied({**api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": stack}, "spec": spec})
    bound = {"policyName": stack, "validationActions": ["Deny"]}
    applied({**api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": stack}, "spec": bound})
    wait_for(lambda: _denied(kubectl, stack), 30, "the policy is in force", pause=0.5)
    (line,) = lines(up(sandbox, stack, SLEEPER, code=1))
    assert "not on a Saturday" in line


def _denied(kubectl: Kubectl, stack: str) -> bool:
    """Return whether the policy is in force yet: probe it with a namespace of the same label."""
    name = f"{stack}-look"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **_labels(stack)}}
    kubectl("apply", "-f", "-", stdin=json.dumps(space))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": name}}
    whole = {
        **pod,
        "spec": {"automountServiceAccountToken": False, "containers": [{"name": "x", "image": "x"}]},
    }
    result = kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(whole), ok=False)
    denied = "created" not in result
    if denied:
        kubectl("delete", "namespace", name, "--wait=false")
    return denied


def _labels(stack: str) -> dict[str, Any]:
    return {"labels": {"symphony/experiment": stack}}


def test_an_invalid_container_yml_is_refused_before_anything_starts(
    sandbox: Sandbox, stack: str, kubectl: Kubectl
) -> None:
    output = up(
        sandbox,
        stack,
        """
with Experiment("e") as e:
    e.new_process("a", command="true").container_yml["resources"] = {"limits": {"cpu": "lots"}}
    e.new_process("b", command="true").container_yml["imagePullPolicy"] = "sometimes"
""",
        code=2,
    )
    assert "container_yml of a has a quantity" in output, output
    assert "container_yml of b sets imagePullPolicy" in output, output
    assert "line 4" in output, output
    assert "2 problems" in output, output
    assert kubectl("get", "namespace", stack, "--ignore-not-found", "-o", "name") == ""
