"""Problems in a stack's settings file are reported with their line, and nothing is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from symphony.backends import settings_reader
from tests.sandbox import Sandbox, sandbox_in

SLEEPER = """
with Experiment() as e:
    e.new_process("a", command=["sleep", "3600"])
"""


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with sandbox_in(tmp_path) as made:
        made.write(SLEEPER)
        yield made


def test_misspelt_and_misplaced_settings_are_reported_with_their_line(sandbox: Sandbox) -> None:
    file = sandbox.folder / "Pulumi.rl.yaml"
    text = "symphony:grace: 3\nconfig:\n  symphony:backend: kubernetes\n  symphony:podSecurty: restricted\n"
    file.write_text(text)
    for words in (("plan", "rl"), ("up", "rl", "-y")):
        head, *lines, end = sandbox.symphony(*words, code=2).err.splitlines()
        assert head == "symphony: rl cannot run: 2 problems in Pulumi.rl.yaml"
        assert [" ".join(line.split()) for line in lines] == [
            '"symphony:podSecurty" is not a setting line 4 did you mean symphony:podSecurity?',
            '"symphony:grace" is not under `config:` line 1 indent it below a line `config:`',
        ]
        assert end == "Nothing was started."
    assert file.read_text() == text
    assert sandbox.stacks() == set()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("project", "stack", "file"),
    [
        ("", "other", "stacks/Pulumi.other.yaml"),
        ("stackConfigDir: settings\n", "short", "Pulumi.short.yaml"),
        ("stackConfigDir: stacks\n", "short", "stacks/Pulumi.short.yml"),
    ],
    ids=["that name the program", "beside Pulumi.yaml", "yml"],
)
def test_settings_files_that_pulumi_does_not_read_are_refused(
    sandbox: Sandbox, project: str, stack: str, file: str
) -> None:
    """Otherwise an experiment for a cluster would start on the laptop."""
    (sandbox.folder / "stacks").mkdir()
    sandbox.write(SLEEPER, "stacks/short.py")
    sandbox.write('from symphony import run_program\nrun_program("stacks")')
    with (sandbox.folder / "Pulumi.yaml").open("a") as opened:
        opened.write(project)
    (sandbox.folder / file).write_text("config:\n  symphony:program: short\n  symphony:backend: kubernetes\n")
    refused = sandbox.symphony("up", stack, "-y", code=2).err
    assert file in refused
    assert "not read" in refused
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_an_unknown_backend_is_refused(sandbox: Sandbox) -> None:
    sandbox.config("rl", bakend="kubernetes")
    assert "did you mean symphony:backend?" in sandbox.symphony("plan", "rl", code=2).err
    (sandbox.folder / "Pulumi.rl.yaml").unlink()
    sandbox.config("rl", backend="tmx")
    assert 'invalid value "tmx" for symphony:backend' in sandbox.symphony("up", "rl", "-y", code=2).err


def test_symphony_config_lists_every_setting(sandbox: Sandbox) -> None:
    rows = sandbox.symphony("config", "--json").json
    assert [row["setting"] for row in rows] == [each.key for each in settings_reader.table()]
    lines = sandbox.symphony("config").out.splitlines()
    assert max(map(len, lines)) <= 80
    for row in rows:
        assert any(line.split()[0] == row["setting"] for line in lines)


@pytest.mark.thorough
def test_up_refuses_to_move_a_running_stack_to_another_backend(sandbox: Sandbox) -> None:
    """For instance because its settings file was lost."""
    sandbox.symphony("up", "rl", "-y")
    (before,) = sandbox.trees().values()
    sandbox.config("rl", backend="k8s")
    for words in (["up", "rl", "-y"], ["plan", "rl"]):
        (line,) = sandbox.symphony(*words, code=2).err.splitlines()
        for part in ("rl runs on tmux", "kubernetes", "Pulumi.rl.yaml", "`symphony delete rl`"):
            assert part in line
    assert list(sandbox.trees().values()) == [before]
    sandbox.symphony("delete", "rl", "-y")
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_delete_works_with_invalid_settings(sandbox: Sandbox) -> None:
    sandbox.symphony("up", "rl", "-y")
    sandbox.config("rl", bakend="kubernetes", grace="soon")
    assert "2 problems" in sandbox.symphony("up", "rl", "-y", code=2).err
    sandbox.symphony("delete", "rl", "-y")
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_plain_pulumi_reports_invalid_settings_too(sandbox: Sandbox) -> None:
    sandbox.pulumi("stack", "init", "rl")
    file = sandbox.folder / "Pulumi.rl.yaml"
    file.write_text("symphony:grace: 3\nconfig:\n  symphony:bakend: kubernetes\n" + file.read_text())
    output = sandbox.pulumi("up", "--yes", "--stack", "rl", code=None)
    assert output.code != 0
    assert "rl cannot run: 2 problems in Pulumi.rl.yaml" in output.out
    assert '"symphony:bakend" is not a setting' in output.out
    assert "line 3" in output.out
    assert '"symphony:grace" is not under `config:`' in output.out
    assert sandbox.trees() == {}
