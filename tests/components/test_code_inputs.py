"""The files that an entry of `code=` selects: a file, a folder, a glob, or the reason for none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from symphony import paths
from symphony.components.code_inputs import files_of
from symphony.spec.shared import CodeFiles


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("train.py", "agents/net.py", "agents/deep/er.py", "agents/out/x.py", "empty/.keep", "a.log"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / ".gitignore").write_text("*.log\n.keep\n")
    (folder / ".symphonyignore").write_text("out/\n")
    (tmp_path / "beside.py").write_text("")
    return folder


def code(text: str, folder: Path) -> CodeFiles:
    return files_of([text], folder)[text]


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("train.py", ["train.py"]),
        ("./train.py", ["train.py"]),
        ("agents/", ["agents/deep/er.py", "agents/net.py"]),
        ("agents", ["agents/deep/er.py", "agents/net.py"]),
        (".", ["agents/deep/er.py", "agents/net.py", "train.py"]),
        ("*.py", ["train.py"]),
        ("agents/*.py", ["agents/net.py"]),
        ("agents/**/*.py", ["agents/deep/er.py", "agents/net.py"]),
        ("**/[en]*.py", ["agents/deep/er.py", "agents/net.py"]),
        ("../beside.py", ["../beside.py"]),
    ],
)
def test_code_selects_files_folders_and_globs(project: Path, text: str, files: list[str]) -> None:
    assert sorted(code(text, project).files) == files


def test_an_absolute_path_inside_the_project_becomes_relative(project: Path) -> None:
    assert [*code(str(project / "train.py"), project).files] == ["train.py"]
    outside = str(project.parent / "beside.py")
    assert [*code(outside, project).files] == [outside]


def test_brackets_in_the_name_of_the_project_folder_are_no_glob(project: Path) -> None:
    assert [*code("agents/*.py", project.rename(project.with_name("project[1]"))).files] == ["agents/net.py"]


def test_an_existing_file_with_glob_characters_is_not_a_glob(project: Path) -> None:
    (project / "a[1].py").write_text("")
    assert [*code("a[1].py", project).files] == ["a[1].py"]


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("gone.py", "it does not exist"),
        ("empty", "no file matches, or .gitignore and .symphonyignore exclude all"),
        ("a.log", "no file matches, or .gitignore and .symphonyignore exclude all"),
        ("agents/out", "no file matches, or .gitignore and .symphonyignore exclude all"),
        ("agents/out/x.py", "no file matches, or .gitignore and .symphonyignore exclude all"),
        ("gone/*.py", "no file matches, or .gitignore and .symphonyignore exclude all"),
        ("~unknown-user/a.py", "cannot be read: could not determine home directory."),
    ],
)
def test_an_entry_without_files_has_a_reason(project: Path, text: str, trouble: str) -> None:
    assert code(text, project) == CodeFiles(trouble=trouble)


@pytest.mark.parametrize("text", ["../beside.py", "../*.py"])
def test_a_copy_of_the_project_lacks_what_is_above_it(project: Path, own_home: Path, text: str) -> None:
    copy = own_home / "work-1" / "code"
    copy.mkdir(parents=True)
    (copy.parent / paths.ORIGIN).write_text(json.dumps({"folder": str(project)}))
    assert "a copy" in code(text, copy).trouble


def test_digests_do_not_depend_on_the_location_of_the_project(project: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    before = code(".", project)
    project.rename(moved)
    assert code(".", moved) == before
