"""Every command run by a user who has only the Role of `symphony rbac`, in one namespace.

The conformance suite runs whole as this user too, among the slow tests.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.backends.kubernetes.diagnosis.test_why import steps
from tests.backends.kubernetes.test_runs import Live, becomes, up
from tests.sandbox import SYMPHONY, Sandbox, wait_for
from toolchain.kubernetes import access
from toolchain.kubernetes.fixtures import Access as Cluster
from toolchain.kubernetes.layout import Layout

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

PROGRAM = """
SCRIPT = "cat $SYMPH_SECRETS_DIR/key; httpd -p $SYMPH_ALPHA_PORT; httpd -p 6006; sleep 999"
with Experiment("e", secrets=[{secret!r}]) as e:
    a = e.new_process("a", command="sh", args=["-c", SCRIPT])
    a.binds("alpha")
    a.exposes({{"board": 6006}})
    e.new_process("bad", command="sh", args=["-c", "echo the reason; exit 3"])
"""


def test_every_command_works_with_only_the_role_of_symphony_rbac(
    own: Cluster, sandbox: Sandbox, stack: str, place: str, live: Live, tmp_path: Path
) -> None:
    """With Jobs, which need more of the role than pods alone."""
    access.grant(Layout.default(), access.ORDINARY, place)
    sandbox.config(stack, controller="Job", **{"kubernetes:kubeconfig": own.user_kubeconfig})
    (tmp_path / "key").write_text("hush\n")
    up(sandbox, stack, PROGRAM.format(secret=str(tmp_path / "key")))
    becomes(sandbox, stack, "a", "running")
    assert becomes(sandbox, stack, "bad", "failed")["why"] == "exit 3: the reason"
    assert len(live("jobs", place)) == 2
    wait_for(lambda: "hush" in sandbox.symphony("logs", stack, "a").out, 20, "its first word", pause=0.5)
    assert sandbox.symphony("exec", stack, "a", "--", "sh", "-c", "echo in; exit 7", code=7).out == "in\n"
    (tmp_path / "there").write_text("and back")
    sandbox.symphony("scp", stack, str(tmp_path / "there"), "a:/tmp/there")
    sandbox.symphony("scp", stack, "a:/tmp/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "and back"
    visiting = sandbox.start([str(SYMPHONY), "visit", stack, "-u"])
    assert visiting.stdout is not None
    assert visiting.stdout.readline().startswith("http://127.0.0.1:")
    visiting.send_signal(signal.SIGINT)
    visiting.communicate(timeout=15)
    assert list(steps(sandbox, stack, "a"))[-2:] == ["ready", "exposed"]
    assert steps(sandbox, stack, "bad")["exit"]["more"] == ["the reason"]
    assert sandbox.planned(stack) == {"a", "bad"}
    sandbox.symphony("delete", stack, "-y", timeout=120)
    for kind in ("pods", "jobs", "services", "secrets"):
        assert live(kind, place) == [], kind
