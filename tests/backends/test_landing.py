"""What is copied takes its final name as a whole, and goes through no link."""

from __future__ import annotations

from pathlib import Path

import pytest

from symphony.backends.atomic_copy import beside, final_name, put, stays_inside
from symphony.errors import UserError


def test_where_it_goes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert final_name(str(tmp_path), "a") == tmp_path / "a"
    assert final_name(f"{tmp_path}/", "a") == tmp_path / "a"
    assert final_name(f"{tmp_path}/b", "a") == tmp_path / "b"
    for wrong in (f"{tmp_path}/no/", f"{tmp_path}/no/b", f"{tmp_path}/file/b"):
        with pytest.raises(UserError, match="no such folder"):
            final_name(wrong, "a")


def test_nothing_is_there_before_it_is_whole(tmp_path: Path) -> None:
    with beside(tmp_path / "final") as new:
        new.write_text("half")
        assert not (tmp_path / "final").exists()
    assert (tmp_path / "final").read_text() == "half"
    with pytest.raises(ZeroDivisionError), beside(tmp_path / "final") as new:
        new.write_text(f"other {1 // 0}")
    assert [each.name for each in tmp_path.iterdir()] == ["final"]
    assert (tmp_path / "final").read_text() == "half"


def test_two_folders_become_one_and_links_are_replaced(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("mine")
    final = tmp_path / "final"
    final.mkdir()
    (final / "kept").write_text("kept")
    (final / "a").symlink_to(outside / "victim")
    with beside(final) as new:
        new.mkdir()
        (new / "a").write_text("new")
        (new / "b").mkdir()
    assert (outside / "victim").read_text() == "mine"
    assert not (final / "a").is_symlink()
    assert (final / "a").read_text() == "new"
    assert (final / "kept").read_text() == "kept"
    (final / "b").rmdir()
    (final / "b").symlink_to(outside)
    new = tmp_path / "new"
    (new / "b").mkdir(parents=True)
    (new / "b" / "victim").write_text("yours")
    with pytest.raises(UserError, match="no folder"):
        put(new, final)
    assert (outside / "victim").read_text() == "mine"


def test_a_file_and_a_folder_do_not_take_each_others_place(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError), beside(tmp_path / "folder") as new:
        new.write_text("")
    with pytest.raises(UserError), beside(tmp_path / "file") as new:
        new.mkdir()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize(
    ("place", "target", "inside"),
    [
        ("l", "a", True),
        ("l", "./a/b", True),
        ("sub/l", "../a", True),
        ("sub/l", "..", True),
        ("l", "..", False),
        ("l", "/a", False),
        ("sub/l", "../../a", False),
        ("sub/l", "a/../..", False),
        ("l", "a/..", False),
        ("l", "", False),
        ("", "a", False),
    ],
)
def test_links(place: str, target: str, inside: bool) -> None:
    assert stays_inside([part for part in place.split("/") if part], target) is inside
