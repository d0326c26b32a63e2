"""The documentation is correct: programs run, settings are known, named files exist."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from symphony.backends.kubernetes.manifests import workloads
from symphony.cli.commands import find
from symphony.engine.state import store
from symphony_tmux.processes import start
from tests.documents import FILES, anchors, blocks, text
from tests.sandbox import ROOT, Sandbox

ALL = "\n".join(file.read_text(encoding="utf-8") for file in FILES)


@pytest.mark.thorough
def test_the_scripts_of_scripts_md_run(sandbox: Sandbox) -> None:
    launch, look = blocks("docs/scripts.md", "python")
    assert sandbox.python(launch).out.startswith("sweep is up: 1 of 1 running")
    assert set(sandbox.trees()) == {"sweep/p0"}
    assert sandbox.python(look).out == "hello\n"
    sandbox.symphony("delete", "sweep", "-y")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["gke", "order", "processes", "runs"])
def test_programs_in_the_docs_can_be_planned(sandbox: Sandbox, name: str) -> None:
    for program in blocks(f"docs/{name}.md", "python"):
        (sandbox.folder / "__main__.py").write_text(program)
        assert len(sandbox.planned("rl")) == program.count(".new_process(")


@pytest.mark.thorough
def test_the_program_of_code_md_can_be_planned(sandbox: Sandbox) -> None:
    (program,) = blocks("docs/code.md", "python")
    for name in ("train.py", "agent.py", "agents/net.py", "common/log.py"):
        (sandbox.folder / name).parent.mkdir(exist_ok=True)
        (sandbox.folder / name).touch()
    (sandbox.folder / "__main__.py").write_text(program)
    assert len(sandbox.planned("rl")) == 2


@pytest.mark.parametrize("name", ["kubernetes", "gke"])
def test_settings_in_the_docs_are_known_and_not_ignored_by_git(name: str) -> None:
    """Also commented settings are in the table, and .gitignore does not exclude the file."""
    settings = blocks(f"docs/{name}.md", "yaml")[0]
    config = yaml.safe_load(settings.replace("  # kubernetes", "  kubernetes"))["config"]
    table = re.findall(r"`(symphony:\w+)", text("docs/settings.md"))
    assert {key for key in config if key.startswith("symphony:")} <= set(table)
    file = settings.splitlines()[0].removeprefix("# ")
    ignored = [line for line in (ROOT / ".gitignore").read_text().splitlines() if line.startswith("stacks/")]
    assert not [pattern for pattern in ignored if Path(file).match(pattern) or "*" in pattern]


def test_figures_in_the_docs_match_the_code() -> None:
    supervisor = (ROOT / "providers" / "symphony_tmux" / "processes" / "supervise.pl").read_text()
    failures, long = re.findall(r"= \((\d+), (\d+), \d+\);", supervisor)[0]
    processes = text("docs/processes.md")
    assert f"{int(failures) + 1} failures in a row" in processes
    assert f"a run of {int(long) // 60} minutes" in processes
    assert f"{workloads.RETRIES} restarts" in processes
    assert f"{start.LOG_CAP >> 20} MiB" in processes
    assert store.KEPT == 10
    assert "the last ten entries" in processes


def test_folders_in_architecture_md_exist_and_are_complete() -> None:
    table = text("docs/architecture.md").partition("| folder | holds |")[2].partition("\n\n")[0]
    folders = re.findall(r"`([\w/]+)`", "\n".join(row.split("|")[1] for row in table.splitlines()[2:]))
    assert len(folders) > 10
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []
    packages = {each.parent.name for each in (ROOT / "symphony").glob("*/__init__.py")}
    assert {folder.partition("/")[2] for folder in folders if folder.startswith("symphony/")} == packages


def test_rooms_and_imports_in_architecture_md_are_those_of_the_code() -> None:
    page = text("docs/architecture.md")
    rooms = re.findall(r"^\| `([\w/]+\.py)` \| (.+) \|$", page, re.M)
    assert len(rooms) == 17
    for file, sentence in rooms:
        docstring = ast.get_docstring(ast.parse(text(file))) or ""
        assert docstring.partition("\n\n")[0].replace("\n", " ") == sentence
    contract = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"][0]
    drawn = page.partition("## Imports")[2].partition("```text\n")[2].partition("```")[0]
    leaves = f"leaves: {', '.join(contract['exhaustive_ignores'])}"
    assert drawn.split("\n") == [
        f" {layer}".replace(" : ", ", ") for layer in [*contract["layers"], leaves]
    ] + [""]


def test_files_links_commands_and_make_targets_named_in_the_docs_exist() -> None:
    named = set(re.findall(r"`([\w./-]+\.(?:md|pl|py|sh|toml|txt|yaml))`", ALL))
    named -= {"train.py", "requirements.txt"}  # a user's
    words = ["git", "-c", f"safe.directory={ROOT}", "ls-files"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    committed = f"/{listed}".replace("\n", "\n/")
    missing = [file for file in named if "NAME" not in file and f"/{file}\n" not in committed]
    assert sorted(missing) == []
    for file in FILES:
        for target in re.findall(r"\]\(([^)]+)\)", file.read_text(encoding="utf-8")):
            if "://" in target:
                continue
            path, _, heading = target.partition("#")
            linked = file.parent / path if path else file
            assert linked.exists(), f"{file.name}: {target}"
            assert not heading or heading in anchors(linked), f"{file.name}: {target}"
    assert all(find(name) for name in re.findall(r"`symphony ([a-z][a-z-]*)", ALL))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"\bmake ([a-z-]+)`", ALL)) <= targets


def test_tests_named_in_security_md_exist() -> None:
    named = re.findall(r"\[(test_\w+)\]\((tests/[\w/]+\.py)\)", text("SECURITY.md"))
    assert len(named) > 25
    assert [test for test, file in named if f"def {test}(" not in text(file)] == []


def test_names_in_contributing_md_exist_in_the_code() -> None:
    names = {name.rpartition(".")[2] for name in re.findall(r"`([a-zA-Z_][\w.]+)`", text("CONTRIBUTING.md"))}
    names -= {"py", "md", "toml"}
    files = [*(ROOT / "symphony").rglob("*.py"), ROOT / "pyproject.toml"]
    words = {*re.findall(r"\w+", "\n".join(file.read_text(encoding="utf-8") for file in files))}
    assert len(names) > 10
    assert names - words == set()
