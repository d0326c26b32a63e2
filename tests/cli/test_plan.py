"""`symphony plan` shows what `up` would do and why, and changes nothing."""

from __future__ import annotations

import pytest
import yaml

from tests.sandbox import Sandbox


def test_plan_of_a_new_experiment_starts_nothing(sandbox: Sandbox) -> None:
    sandbox.write(
        "with Experiment() as e:\n"
        '    e.new_process("server", command=["sleep", "1"], image="some:image").binds("greetings")\n'
        '    for i in range(3): e.new_process(f"guest-{i}", command=["sleep", "1"]).connects("greetings")'
    )
    out = sandbox.symphony("plan", "new").out
    rows = [line.split() for line in out.splitlines()]
    assert ["+", "server", "start", "new"] in [row[:4] for row in rows]
    assert "greetings:" in out
    assert "guest-0..2" in out
    assert "Not used on tmux: image" in out
    facts = sandbox.symphony("plan", "new", "--json").json
    assert [change["kind"] for change in facts["changes"]] == ["start"] * 4
    assert facts["plan"]["backend"] == "tmux"
    assert sandbox.trees() == {}
    assert sandbox.servers() == []
    assert not (sandbox.home / "experiments" / "new").exists()


def test_plan_of_a_running_experiment_lists_changes_with_reasons(lab: Sandbox) -> None:
    trees = lab.trees()
    facts = lab.symphony("plan", "rl", "--json").json
    kinds = {change["path"]: change["kind"] for change in facts["changes"]}
    assert kinds == {
        "learner": "keep",
        "agent-0": "keep",
        "agent-1": "keep",
        "eval/agent-0": "keep",
        "wild": "restart",
    }
    assert "exit" in str(next(change["why"] for change in facts["changes"] if change["path"] == "wild"))
    assert lab.trees() == trees


@pytest.mark.thorough
def test_plan_yaml_prints_manifests_without_a_cluster(sandbox: Sandbox) -> None:
    nowhere = {"KUBECONFIG": str(sandbox.home / "none")}
    (sandbox.folder / "key").write_text("hush")
    sandbox.write(
        'with Experiment(secrets=["key"]) as e: e.new_process("a", command="sh", image="rl:1").binds("s")\n'
        'print("noise")'
    )
    refused = sandbox.symphony("plan", "rl", "--yaml", code=2, env=nowhere)
    assert "rl is for tmux, which has no manifests. Set `symphony:backend: kubernetes` in " in refused.err
    sandbox.config("rl", backend="kubernetes", controller="Job")
    printed = sandbox.symphony("plan", "rl", "--yaml", env=nowhere).out
    kinds = [each["kind"] for each in yaml.safe_load_all(printed)]
    assert kinds == ["Namespace", "ConfigMap", "Secret", "Service", "Job"]
    assert "key: '***'" in printed
    sandbox.config("rl", sourceRanges="everywhere")
    assert "sourceRanges" in sandbox.symphony("plan", "rl", "--yaml", code=2, env=nowhere).err
    assert sandbox.stacks() == set()
