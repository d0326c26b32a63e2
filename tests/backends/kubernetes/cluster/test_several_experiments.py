"""Several experiments in one cluster: which one is meant without a name, and deleting them by pattern."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.sandbox import Sandbox
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(300)]
PROGRAM = """
import pulumi
with Experiment("e", env={"WHO": pulumi.get_stack()}) as e:
    e.new_process("a", command="sleep", args=["999"])
"""


@pytest.fixture
def sweep(sandbox: Sandbox, cluster: Cluster, kubectl: Callable[..., str]) -> Iterator[tuple[str, str]]:
    """Two stacks of one program, and a namespace of somebody else that their pattern fits too."""
    batch = f"kt-{uuid.uuid4().hex[:6]}"
    first, second, theirs = (f"{batch}-{each}" for each in ("one", "two", "theirs"))
    where = {"kubernetes:kubeconfig": cluster.kubeconfig}
    for name in (first, second):
        sandbox.config(name, backend="kubernetes", image=cluster.shell_image, grace="1", **where)
    kubectl("create", "namespace", theirs)
    yield first, second
    for name in (first, second, theirs):
        kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


def test_one_is_switched_to_and_both_are_deleted_by_pattern(
    sandbox: Sandbox, sweep: tuple[str, str], kubectl: Callable[..., str]
) -> None:
    sandbox.write(PROGRAM)
    for name in sweep:
        sandbox.symphony("up", name, "-y", timeout=120)
    assert "symphony switch" in sandbox.symphony("exec", "a", "--", "true", code=2).err
    for name in reversed(sweep):
        assert sandbox.symphony("switch", name).out == f"{name}\n"
        assert sandbox.symphony("exec", "a", "--", "sh", "-c", "echo $WHO").out == f"{name}\n"

    pattern = f"{sweep[0].removesuffix('one')}*"
    ran = sandbox.symphony("delete-batch", pattern, "-y", timeout=120)
    deleted = [line.split()[1].rstrip(":") for line in ran.out.splitlines() if line.startswith("Deleted ")]
    assert sorted(deleted) == sorted(sweep)
    assert sandbox.symphony("ls", "--json").json == []
    namespaces = kubectl("get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}").split()
    assert [name for name in namespaces if name.startswith(pattern[:-1])] == [f"{pattern[:-1]}theirs"]
    assert sandbox.symphony("switch", code=2).out == ""
