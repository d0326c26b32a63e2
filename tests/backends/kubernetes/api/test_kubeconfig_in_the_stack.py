"""`kubernetes:kubeconfig` as a Pulumi secret with a whole kubeconfig: it works and leaks nowhere."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.sandbox import SYMPHONY, Sandbox
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(300)]
PROGRAM = """
with Experiment("e") as e:
    e.new_process("a", command="sleep", args=["999"]).binds("alpha")
"""


@pytest.fixture
def secrets(own: Cluster) -> list[bytes]:
    """Return the secrets of the kubeconfig: its client key, in base64 and decoded."""
    user: dict[str, Any] = yaml.safe_load(Path(own.kubeconfig).read_text())["users"][0]["user"]
    text = user["client-key-data"]
    key = base64.b64decode(text).splitlines()
    return [text[80:140].encode(), key[2]]


def command_lines() -> set[bytes]:
    """Return the command lines of all processes of this machine."""
    every = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    return {" ".join(words).encode(errors="surrogateescape") for words in every}


def containing(secrets: list[bytes], texts: Iterable[tuple[Any, bytes]]) -> list[Any]:
    return [name for name, text in texts if any(secret in text for secret in secrets)]


def read_files(*folders: Path) -> list[tuple[Path, bytes]]:
    every = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [(file, file.read_bytes()) for file in every if "plugins" not in file.parts]


def test_a_kubeconfig_stored_as_a_pulumi_secret_works_and_leaks_nowhere(
    sandbox: Sandbox,
    stack: str,
    own: Cluster,
    secrets: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine uses the secret; `up`, `process` and `delete` also need the user's own kubeconfig."""
    mine = {"KUBECONFIG": own.kubeconfig}
    monkeypatch.setitem(sandbox.environment, "KUBECONFIG", "/nowhere")
    sandbox.pulumi("stack", "init", stack)
    with Path(own.kubeconfig).open() as text:
        sandbox.pulumi("config", "set", "--secret", "kubernetes:kubeconfig", "--stack", stack, stdin=text)
    assert "secure:" in (sandbox.folder / f"Pulumi.{stack}.yaml").read_text()

    sandbox.write(PROGRAM)
    assert sandbox.planned(stack) == {"a"}
    seen: set[bytes] = set()
    running = sandbox.start([str(SYMPHONY), "up", stack, "-y"], env=mine)
    while running.poll() is None:
        seen |= command_lines()
        time.sleep(0.1)
    out, err = running.communicate(timeout=10)
    assert running.returncode == 0, out + err
    refreshed = sandbox.pulumi("refresh", "--stack", stack, "--yes", "--expect-no-changes", timeout=120)
    seen |= command_lines()

    result = (out, err, refreshed.out, refreshed.err)
    assert [line for line in seen if b"pulumi" in line and stack.encode() in line], "the engine was seen"
    assert containing(secrets, [(line, line) for line in seen]) == []
    assert containing(secrets, [(each, each.encode()) for each in result]) == []
    kept = read_files(sandbox.home, Path(sandbox.environment["PULUMI_HOME"]), sandbox.folder)
    assert [file.name for file, _ in kept if file.name == f"{stack}.json"]
    assert containing(secrets, kept) == []
    # It is in the state, for users who know the passphrase.
    exported = sandbox.pulumi("stack", "export", "--stack", stack).out
    shown = sandbox.pulumi("stack", "export", "--show-secrets", "--stack", stack).out
    assert containing(secrets, [("hidden", exported.encode()), ("shown", shown.encode())]) == ["shown"]

    assert sandbox.processes(stack, env=mine)["a"]["state"] == "running"
    refused = sandbox.symphony("process", stack, code=2).err
    assert "your default kubeconfig: add that context to it" in refused
    sandbox.symphony("delete", stack, "-y", env=mine, timeout=120)
    assert stack not in sandbox.symphony("ls").out
    assert containing(secrets, read_files(sandbox.home, Path(sandbox.environment["PULUMI_HOME"]))) == []
