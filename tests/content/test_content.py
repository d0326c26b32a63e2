"""Which files of a folder count as code, and their digests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from symphony import paths
from symphony.content import digests, ignore_files
from symphony.content.code_files import files_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


def put(folder: Path, **content: str) -> None:
    """Write files; __ in a name stands for a slash, _ for a dot."""
    for name, text in content.items():
        file = folder / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def code_files(folder: Path) -> list[str]:
    rules = ignore_files.rules_above(str(folder), str(folder))
    assert rules is not None
    return sorted(os.path.relpath(each, folder) for each in ignore_files.walk(str(folder), rules))


def digests_of(folder: Path) -> dict[str, str]:
    return {name: digests.of_file(str(folder / name)) for name in code_files(folder)}


def test_ignore_files_apply_to_their_folder_and_below(folder: Path) -> None:
    put(folder, a_py="", data__big_bin="", agents__b_py="", agents__out__x="", agents__keep_log="", c_log="")
    put(folder, _gitignore="*.log\n/data/\n", agents___gitignore="out/\n!keep.log\n")
    assert code_files(folder) == ["a.py", "agents/b.py", "agents/keep.log"]


def test_symphonyignore_overrides_gitignore(folder: Path) -> None:
    put(folder, a_py="", built_py="", notes_md="", _gitignore="built.py\n")
    put(folder, _symphonyignore="!built.py\n*.md\n")
    assert code_files(folder) == ["a.py", "built.py"]


def test_the_gitignore_at_the_top_of_the_repository_applies(folder: Path) -> None:
    put(folder, _gitignore="*.log\n/rl/out/\n", rl__a_py="", rl__a_log="", rl__out__x="", rl__sub__b_log="")
    assert code_files(folder / "rl" / "sub") == ["b.log"]
    (folder / ".git").mkdir()
    assert code_files(folder / "rl") == ["a.py"]
    assert code_files(folder / "rl" / "sub") == []
    assert ignore_files.rules_above(str(folder / "rl" / "out" / "x"), str(folder / "rl")) is None


@pytest.mark.parametrize("repository", ["project", "."])
def test_a_copy_of_a_project_has_its_rules_and_those_above_it(
    tmp_path: Path, own_home: Path, repository: str
) -> None:
    """The first layout is a home folder that ignores everything, the second a project in a repository."""
    project, copy = tmp_path / "project", own_home / "work-1" / "code"
    for folder in (project, copy):
        put(folder, train_py="", train_log="", out__x="", built__x="", _gitignore="built\n")
    put(tmp_path, _gitignore="*\n" if repository == "project" else "*.log\n/project/out/\n")
    for folder in (".", repository):
        (tmp_path / folder / ".git").mkdir(exist_ok=True)
    (copy.parent / paths.ORIGIN).write_text(json.dumps({"folder": str(project)}))
    files = files_of(".", str(copy))
    assert "train.py" in files
    assert "built/x" not in files
    assert files == files_of(".", str(project))


def test_files_of_python_editors_and_the_engine_are_not_code(folder: Path) -> None:
    put(folder, a_py="", a_pyc="", Pulumi_rl_yaml="", a_py_swp="", _venv__bin__python="")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.txt").touch()
    put(folder, _git__HEAD="")
    assert "a.py" in code_files(folder)
    assert not [name for name in code_files(folder) if name != "a.py"]


def test_invalid_lines_of_ignore_files_are_skipped(folder: Path) -> None:
    put(folder, a_py="", b_log="", _gitignore="!\n*.log\n")
    assert code_files(folder) == ["a.py"]


def test_pipes_are_ignored_and_a_link_to_a_folder_counts_by_its_target_path(
    folder: Path, tmp_path: Path
) -> None:
    put(folder, a_py="")
    os.mkfifo(folder / "pipe")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "nowhere").symlink_to("missing")
    before = digests_of(folder)
    assert [*before] == ["a.py", "linked", "nowhere"]
    (folder / "linked").unlink()
    (folder / "linked").symlink_to("/")
    assert digests.changed_names(before, digests_of(folder)) == ["linked"]


@pytest.mark.parametrize("follow", [True, False])
def test_a_followed_link_counts_by_the_content_of_its_file(folder: Path, follow: bool) -> None:
    put(folder, a_py="1")
    (folder / "b").symlink_to("a.py")

    def digest() -> str:
        return digests.of_file(str(folder / "b"), follow=follow)

    before = digest()
    put(folder, a_py="2")
    assert (digest() != before) is follow


def test_a_file_counts_as_changed_by_name_content_and_executable_bit_only(folder: Path) -> None:
    put(folder, a="1", b="2")
    before = digests_of(folder)
    os.utime(folder / "a", (1, 1))
    (folder / "b").chmod(0o640)
    assert digests_of(folder) == before
    (folder / "b").chmod(0o740)
    assert digests.changed_names(before, digests_of(folder)) == ["b"]
    (folder / "b").chmod(0o640)
    (folder / "a").rename(folder / "c")
    assert digests.changed_names(before, digests_of(folder)) == ["a", "c"]
    assert digests.of_all(before) != digests.of_all(digests_of(folder))


@pytest.mark.parametrize(("min_age", "changed"), [(digests.MIN_AGE_NS, ["a"]), (0, [])])
def test_only_files_older_than_a_clock_tick_are_remembered(
    folder: Path, monkeypatch: pytest.MonkeyPatch, min_age: int, changed: list[str]
) -> None:
    """Two changes within one clock tick differ only in content."""
    monkeypatch.setattr(digests, "MIN_AGE_NS", min_age)
    monkeypatch.setattr(digests, "stamp_of", lambda _: "the stamp of both")
    put(folder, a="1")
    before = digests_of(folder)
    put(folder, a="2")
    assert digests.changed_names(before, digests_of(folder)) == changed
