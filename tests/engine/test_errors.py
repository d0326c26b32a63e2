"""Failures of the engine, plugins and programs become one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from symphony import paths
from symphony.engine import errors
from symphony.engine.run.events import Diagnostic, Outcome, Result
from symphony.engine.state import file_store

PROVIDER = """Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/pulumi/dynamic/__main__.py", line 84, in wrapper
    return fn(self, request, context)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/x/symphony_tmux/provider.py", line 8, in create
    raise Refused(
symphony_tmux.errors.Refused: port 7000 is taken by vim (pid 7). Choose another port.

"""
SYNTAX = """Program failed with an unhandled exception:
Traceback (most recent call last):
  File "/engine/pulumi-language-python-exec", line 232, in <module>
    loop.run_until_complete(coro)
  File "<frozen runpy>", line 304, in run_path
  File "/home/me/rl/stacks/rl.py", line 1
    import pulumi; def
                   ^^^
SyntaxError: invalid syntax

"""
CHAINED = """Traceback (most recent call last):
  File "/home/me/a.py", line 1, in <module>
    int("x")
ValueError: invalid literal

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/me/b.py", line 2, in <module>
    raise KeyError("y")
KeyError: 'y'
"""


def outcome(
    *text: tuple[str, str], stderr: str = "", result: Result = "failed", severity: str = "error"
) -> Outcome:
    diagnostics = tuple(Diagnostic(severity, message, urn) for message, urn in text)
    return Outcome("up", "rl", "symphony", Path("/home/me/rl"), result, 1, None, diagnostics, stderr, 6.0)


def test_find_traceback_returns_the_last_exception_and_its_place() -> None:
    refused = errors.find_traceback(PROVIDER)
    assert refused is not None
    assert refused.is_ours
    assert refused.text == "port 7000 is taken by vim (pid 7). Choose another port."
    wrong = errors.find_traceback(SYNTAX)
    assert wrong is not None
    assert (wrong.short, wrong.where) == ("SyntaxError: invalid syntax", "/home/me/rl/stacks/rl.py:1")
    assert len(wrong.frames) == 3
    last = errors.find_traceback(CHAINED)
    assert last is not None
    assert (last.short, last.where) == ("KeyError: 'y'", "/home/me/b.py:2")
    assert errors.find_traceback("no traceback") is None


def test_a_provider_error_names_the_process() -> None:
    failed = outcome((PROVIDER, "urn:x::agents/agent-0"), ("update failed\n", ""))
    error = errors.error_of(failed)
    assert str(error) == ("port 7000 is taken by vim (pid 7). Choose another port (agents/agent-0).")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("OSError: [Errno 28] No space left on device", "{home}"),
        ("OSError: [Errno 28] No space left on device: '/mnt/my disk/rl-1/draft'", "/mnt/my disk/rl-1"),
        ("error: write /mnt/disk/state/rl.json: no space left on device", "/mnt/disk/state"),
        ("error: mkdir file:///mnt/disk/state: no space left on device", "/mnt/disk"),
        ("error: fork: no space left on device", ""),
        ("error: write /mnt/my disk/rl.json: no space left on device", ""),
        ("error: open {root}/stacks/rl.json: no space left on device", ""),
    ],
)
def test_a_full_disk_is_named_by_the_folder_in_the_error(text: str, place: str) -> None:
    text = text.replace("{root}", str(file_store.root()))
    if text.startswith("OSError"):
        text = PROVIDER.replace("symphony_tmux.errors.Refused: port 7000 is taken", text)
    error = errors.error_of(outcome((text, "urn:x::a")))
    assert error.what == "the disk is full"
    assert error.where == (place.replace("{home}", str(paths.home())) or str(file_store.root()))
    assert "Free some space" in error.remedy


WORDS = (
    'resource "urn:pulumi:rl::p::x:y:Z::a" was not successfully created by the Kubernetes API server: ',
    'update of resource "urn:pulumi:rl::p::x:y:Z::a" failed because the Kubernetes API server refused: ',
    '1 error occurred:\n\t* the Kubernetes API server reported that "rl/a" failed to fully initialize or '
    "become live: ",
)


@pytest.mark.parametrize("words", ["", *WORDS])
@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ('pods "a" is forbidden: violates PodSecurity "restricted:latest": x', "podSecurity restricted"),
        ('pods "a" is forbidden: exceeded quota: few, requested: pods=1', "a higher quota"),
        ('pods is forbidden: User "o" cannot create resource "pods"', "symphony rbac"),
        ("timed out waiting for the condition", "cluster answers"),
    ],
)
def test_a_refusal_of_the_api_server_is_quoted_with_a_remedy(words: str, text: str, remedy: str) -> None:
    error = errors.error_of(outcome((words + text, "urn:pulumi:rl::p::kubernetes:core/v1:Pod::a")))
    assert (error.what, error.where) == (text, "a")
    assert remedy in error.remedy


def test_several_failures_are_a_summary_and_one_line_each() -> None:
    boom = PROVIDER.replace("symphony_tmux.errors.Refused: port 7000 is taken", "OSError: boom")
    error = errors.error_of(outcome((PROVIDER, "u::a"), (boom, "u::b"), (boom, "u::c")))
    assert error.what.endswith(", and 2 more failed")
    assert error.where == "a"
    assert [line.split(":")[0] for line in error.details] == ["  b", "  c"]


def test_an_unreachable_api_server_is_one_line_without_the_plugins_advice() -> None:
    text = (
        "failed to read resource state due to unreachable cluster. If the cluster was deleted, remove "
        'this resource by rerunning with the PULUMI_K8S_DELETE_UNREACHABLE variable set to "true"'
    )
    error = errors.error_of(outcome((text, "u::a"), (text, "u::b")))
    assert "does not answer" in error.what
    assert "UNREACHABLE" not in str(error)
    assert error.details == ()


def test_a_timed_out_request_of_the_kubernetes_plugin_is_one_line() -> None:
    text = 'Get "https://127.0.0.1:1/api?timeout=32s": net/http: TLS handshake timeout'
    pods = [
        (text, f"urn:pulumi:rl::p::symphony:index:Process$kubernetes:core/v1:Pod::{name}") for name in "ab"
    ]
    error = errors.error_of(outcome(*pods))
    assert "does not answer" in error.what
    assert error.details == ()
    other = errors.error_of(outcome((text, "urn:pulumi:rl::p::gcp:container/cluster:Cluster::a")))
    assert "handshake" in other.what


def test_a_syntax_error_shows_only_the_users_frames() -> None:
    error = errors.error_of(outcome((SYNTAX, "")))
    assert error.line == "stacks/rl.py:1: invalid syntax."
    assert error.exit_code == 2
    assert "pulumi-language" not in "\n".join(error.details)


def test_a_breakpoint_in_the_program_suggests_debugpy() -> None:
    head = "Traceback (most recent call last):"
    text = f'{head}\n  File "/w/__main__.py", line 3, in <module>\n    with e:\nbdb.BdbQuit\n'
    error = errors.error_of(outcome((text, "")))
    assert "breakpoint()" in error.what
    assert ":3" in error.where
    assert "debugpy" in error.remedy


BUG = "This is a bug!\n\nWe would appreciate a report\n====\nGo Version:  go1.26\n"


@pytest.mark.parametrize(
    ("text", "message", "code"),
    [
        ("error: get stack secrets manager: incorrect passphrase", "this passphrase does not decrypt", 2),
        ("error: passphrase must be set with PULUMI_CONFIG_PASSPHRASE", "need a passphrase", 2),
        ("error: no stack named 'rl' found", "the stack rl does not exist. `symphony ls` lists", 2),
        ("error: open /x: no space left on device", "Free some space there", 1),
        ("error: open /srv/Pulumi.rl.yaml: read-only file system", "copy the project", 1),
        ("error: mkdir /srv/state: permission denied", "permission denied (/srv/state)", 1),
        (
            "error: no resource plugin 'pulumi-resource-gcp' found in the workspace at "
            "version v10.2.0 or on your $PATH",
            'Run `eval "$(symphony env)"; pulumi plugin install resource gcp 10.2.0`.',
            1,
        ),
        (
            "error: Could not automatically download and install resource plugin 'pulumi-resource-gcp'"
            " at version v10.2.0, install the plugin using `pulumi plugin install`: failed",
            "the Pulumi plugin gcp 10.2.0 is not installed",
            1,
        ),
        ("plugin [pulumi-python] did not begin responding to RPC", "the provider pulumi-python did not", 1),
        ("error: something new\nand more", "something new (rl).", 1),
        ("", "the program of rl was killed.", 1),
        (
            'error: failed to discover package requirements: connection error: desc = "transport: Error '
            'while dialing: dial unix /h/processes/7-ab/cd/program: connect: connection refused"',
            "the program of rl was killed.",
            1,
        ),
        (
            f"error: The Pulumi CLI encountered a fatal error. {BUG}Panic:  nil map",
            "CLI crashed: nil map (rl)",
            1,
        ),
        (
            f"error: The Pulumi CLI encountered a snapshot integrity error. {BUG}Error:   snapshot integrity"
            " failure; refusing to use it: a child refers to a missing parent\n\nStack Trace:",
            "the state of rl is inconsistent: a child refers to a missing parent",
            1,
        ),
    ],
)
def test_known_engine_errors_have_a_message_and_exit_code(text: str, message: str, code: int) -> None:
    error = errors.error_of(outcome(stderr=text))
    assert message in str(error)
    assert "This is a bug" not in str(error)
    assert error.exit_code == code


def test_a_lock_held_by_another_run_names_its_owner() -> None:
    text = (
        "error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or "
        "delete the lock file with `pulumi cancel`.\n  file:///s/.pulumi/locks/organization/a/rl/1.json: "
        "created by alice@elsewhere (pid 812) at 2020-11-21T10:31:00Z"
    )
    result = str(errors.error_of(outcome(stderr=text)))
    assert result.startswith("rl is being changed by alice, pid 812 on elsewhere since 2020-11-21 ")


def test_a_settings_file_that_cannot_be_made_names_its_folder(tmp_path: Path) -> None:
    error = errors.error_of(outcome(stderr=f"error: open {tmp_path}/Pulumi.rl.yaml: permission denied"))
    assert (error.what, error.where) == ("Pulumi.rl.yaml cannot be written", str(tmp_path))


@pytest.mark.parametrize(
    ("cause", "file"),
    [
        ("getting stack configuration", "Pulumi.rl.yaml"),
        ("could not unmarshal '/lab/Pulumi.yaml'", "Pulumi.yaml"),
    ],
)
def test_a_setting_that_is_set_twice_is_named_with_its_file(cause: str, file: str) -> None:
    text = f'error: {cause}: yaml: unmarshal errors:\n  line 3: mapping key "symphony:server"'
    error = errors.error_of(outcome(stderr=f"{text} already defined at line 2"))
    assert (error.what, error.where) == ("symphony:server is set twice", f"{file}:3")


def test_a_killed_engine_is_named() -> None:
    killed = replace(outcome(), exit_code=-9)
    assert str(errors.error_of(killed)).startswith("the Pulumi engine was killed. ")


def test_an_interrupted_run_exits_with_130() -> None:
    stopped = errors.error_of(outcome(("update failed", ""), result="interrupted"))
    assert stopped.exit_code == 130
    assert str(stopped) == "up of rl was interrupted. Run `symphony up rl` to finish."
    errors.check(outcome(result="succeeded"))
