"""`symphony scp`: a hostile tar from a process writes nothing outside the target; copies are equal."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from symphony.backends.access import Copied
from symphony.backends.copying import copy, final_name, pack, unpack
from symphony.errors import SymphonyError, UserError

Entry = tuple[str, bytes, str]


def tar(*entries: Entry, size: int | None = None, form: Literal[0, 1, 2] = tarfile.GNU_FORMAT) -> bytes:
    """Return a tar of entries (name, kind, content of the file or target of the link)."""
    made = io.BytesIO()
    for name, kind, more in entries:
        header = tarfile.TarInfo(name)
        header.type, header.mode = kind, 0o755
        content = more.encode() if kind == tarfile.REGTYPE else b""
        header.linkname = "" if kind == tarfile.REGTYPE else more
        header.size = len(content) if size is None else size
        made.write(header.tobuf(form, "utf-8", "surrogateescape"))
        made.write(content + bytes(-len(content) % 512))
    return made.getvalue() + bytes(1024)


TOP: Entry = ("./", tarfile.DIRTYPE, "")
FILE: Entry = ("./a", tarfile.REGTYPE, "one")


def unpack_bytes(data: bytes, new: Path) -> Copied:
    return unpack(io.BytesIO(data), new)


def tree_content(top: Path) -> dict[str, str]:
    """Return the paths below a folder, with the content of files."""
    result: dict[str, str] = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink():
            result[name] = f"-> {path.readlink()}"
        else:
            result[name] = "/" if path.is_dir() else path.read_text()
    return result


def test_unpacking_a_folder_restores_files_folders_and_links(tmp_path: Path) -> None:
    data = tar(
        TOP,
        FILE,
        ("./sub", tarfile.DIRTYPE, ""),
        ("./sub/b c", tarfile.REGTYPE, "two"),
        ("./in", tarfile.SYMTYPE, "sub/b c"),
        ("./sub/up", tarfile.SYMTYPE, "../a"),
        ("./same", tarfile.LNKTYPE, "./a"),
    )
    assert unpack_bytes(data, tmp_path / "new") == Copied(2, 6)
    assert tree_content(tmp_path / "new") == {
        "a": "one",
        "in": "-> sub/b c",
        "same": "one",
        "sub": "/",
        "sub/b c": "two",
        "sub/up": "-> ../a",
    }


def test_unpacking_a_single_file(tmp_path: Path) -> None:
    assert unpack_bytes(tar(FILE), tmp_path / "new") == Copied(1, 3)
    assert (tmp_path / "new").read_text() == "one"


LEFT_OUT = {
    "absolute link": ("./l", tarfile.SYMTYPE, "/etc/passwd"),
    "link up": ("./l", tarfile.SYMTYPE, "../x"),
    "link up through a folder": ("./l", tarfile.SYMTYPE, "sub/../../x"),
    "link down and up": ("./l", tarfile.SYMTYPE, "sub/.."),
    "empty link": ("./l", tarfile.SYMTYPE, ""),
    "pipe": ("./l", tarfile.FIFOTYPE, ""),
    "device": ("./l", tarfile.CHRTYPE, ""),
}


@pytest.mark.parametrize("entry", LEFT_OUT.values(), ids=LEFT_OUT)
def test_links_that_point_outside_are_omitted_and_reported(tmp_path: Path, entry: Entry) -> None:
    data = tar(TOP, FILE, ("./sub", tarfile.DIRTYPE, ""), entry)
    done = unpack_bytes(data, tmp_path / "new")
    assert [text.partition(":")[0] for text in done.left_out] == ["l"]
    assert tree_content(tmp_path / "new") == {"a": "one", "sub": "/"}


def test_unpacked_modes_follow_the_umask(tmp_path: Path, any_umask: None) -> None:
    data = bytearray(tar(TOP, FILE))
    header = tarfile.TarInfo("./a")
    header.mode, header.size = 0o6777, 3
    data[512:1024] = header.tobuf(tarfile.GNU_FORMAT)
    unpack_bytes(bytes(data), tmp_path / "new")
    mode = (tmp_path / "new" / "a").stat().st_mode
    assert stat.S_IMODE(mode) & 0o6000 == 0
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(mode) & mask == 0


def test_a_sparse_file_is_omitted_and_does_not_fill_the_disk(tmp_path: Path) -> None:
    headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 50), "GNU.sparse.numblocks": "1"}
    made = io.BytesIO(tar(TOP)[:512])
    made.seek(0, 2)
    member = tarfile.TarInfo("./hole")
    member.pax_headers = headers
    made.write(member.tobuf(tarfile.PAX_FORMAT) + bytes(1024))
    done = unpack_bytes(made.getvalue(), tmp_path / "new")
    assert done.bytes == 0
    assert len(done.left_out) == 1


@pytest.mark.parametrize("cut", [0, 100, 1025])
def test_a_truncated_tar_is_an_error(tmp_path: Path, cut: int) -> None:
    data = tar(TOP, FILE, ("./b", tarfile.REGTYPE, "two"))
    with pytest.raises(SymphonyError):
        unpack_bytes(data[:cut], tmp_path / "new")


def names() -> st.SearchStrategy[str]:
    part = st.sampled_from([".", "..", "a", "b", "l", "", "etc"])
    return st.lists(part, min_size=1, max_size=4).map("/".join) | st.lists(part, max_size=3).map(
        lambda parts: "/" + "/".join(parts)
    )


kinds = st.sampled_from(
    [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, b"\0", b"6", b"Z"]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=st.lists(st.tuples(names(), kinds, names()), min_size=1, max_size=7), top=st.booleans())
@example(entries=[("/etc/x", tarfile.REGTYPE, "x")], top=True)
@example(entries=[("./../x", tarfile.REGTYPE, "x")], top=True)
@example(entries=[("./l", tarfile.LNKTYPE, "../../outside"), ("./l", tarfile.REGTYPE, "x")], top=True)
@example(entries=[("./l", tarfile.SYMTYPE, ".."), ("./l/x", tarfile.REGTYPE, "x")], top=True)
@example(entries=[("x", tarfile.SYMTYPE, ".")], top=False)
@example(entries=[("/a/", tarfile.SYMTYPE, "..")], top=True)
@example(entries=[("b", tarfile.SYMTYPE, "/"), ("a", tarfile.LNKTYPE, "b")], top=True)
def test_no_generated_tar_leads_outside_the_target(
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry], top: bool
) -> None:
    place = tmp_path_factory.mktemp("h")
    (place / "outside").write_text("mine")
    inside = place / "in"
    inside.mkdir()
    with suppress(SymphonyError):
        unpack_bytes(tar(*([TOP] if top else []), *entries), inside / "final")
    for path in inside.rglob("*"):
        # realpath() of a link to itself is the link.
        assert os.path.realpath(path).startswith(f"{os.path.realpath(inside)}/"), path
    assert (place / "outside").read_text() == "mine"
    assert sorted(each.name for each in place.iterdir()) == ["in", "outside"]


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=2000), at=st.integers(0, 2500), noise=st.binary(min_size=1, max_size=40))
@example(data=b"", at=2057, noise=b"\x00\n")
@example(data=b"", at=2057, noise=b"\n")
def test_a_damaged_tar_is_a_one_line_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int, noise: bytes
) -> None:
    good = bytearray(tar(TOP, FILE, ("./" + "n" * 150, tarfile.REGTYPE, "x"), form=tarfile.PAX_FORMAT))
    good[at : at + len(noise)] = noise
    for each in (data, bytes(good)):
        place = tmp_path_factory.mktemp("n")
        try:
            unpack_bytes(each, place / "new")
        except SymphonyError as error:
            lines = str(error).splitlines()
            if len(lines) != 1:
                pytest.fail(str(error))
        assert {path.name for path in place.iterdir()} <= {"new"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "sub" / ("deep" * 30)).mkdir(parents=True)
    (source / "a").write_bytes(b"one" * 1000)
    (source / "sub" / "e\u0301 \udcff\n").write_text("odd name")
    (source / "sub" / ("deep" * 30) / ("long" * 40)).write_text("long name")
    (source / "in").symlink_to("sub/x")
    (source / "out").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    (source / "a").chmod(0o755)
    return source


def test_packing_and_unpacking_give_equal_files(tree: Path, tmp_path: Path) -> None:
    packed = io.BytesIO()
    done = pack(tree, packed)
    there = tmp_path / "there"
    there.mkdir()
    subprocess.run(["tar", "-xf", "-", "-C", str(there)], input=packed.getvalue(), check=True, timeout=30)
    assert sorted(done.left_out) == [
        "out: a link that leads out of the folder",
        "pipe: neither file, folder nor link",
    ]
    assert done.files == 3
    (tree / "out").unlink()
    (tree / "pipe").unlink()
    assert tree_content(there) == tree_content(tree)
    assert (there / "a").stat().st_mode & 0o777 == 0o755


def test_a_local_copy_is_equal_and_merges_into_an_existing_folder(tree: Path, tmp_path: Path) -> None:
    moved: list[int] = []
    done = copy(tree, tmp_path / "there", moved.append)
    assert len(done.left_out) == 2
    assert sum(moved) > done.bytes > 3000
    (tmp_path / "there" / "kept").write_text("kept")
    (tree / "a").write_bytes(b"two")
    copy(tree, tmp_path / "there", moved.append)
    (tree / "out").unlink()
    (tree / "pipe").unlink()
    assert tree_content(tmp_path / "there") == {**tree_content(tree), "kept": "kept"}
    assert copy(tree / "a", tmp_path / "one", moved.append) == Copied(1, 3)
    assert (tmp_path / "one").read_bytes() == b"two"


@pytest.mark.parametrize(
    ("source", "message"),
    [("no", "no such file"), ("pipe", "only files and folders"), ("a", "is a directory")],
)
def test_an_impossible_local_copy_is_a_one_line_error(
    tree: Path, tmp_path: Path, source: str, message: str
) -> None:
    (tmp_path / "final").mkdir()
    with pytest.raises(SymphonyError, match=message):
        copy(tree / source, tmp_path / "final", lambda _: None)
    assert list((tmp_path / "final").iterdir()) == []


def test_a_file_or_folder_is_not_copied_onto_or_into_itself(tree: Path) -> None:
    (tree / "a").write_bytes(bytes(3 << 20))
    for target, message in ((tree / "a", "onto itself"), (tree / "inner", "into itself")):
        with pytest.raises(UserError, match=message):
            copy(tree / "a" if target.name == "a" else tree, target, lambda _: None)
    assert (tree / "a").stat().st_size == 3 << 20


def test_the_destination_of_a_copy_follows_the_rules_of_cp(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert final_name(str(tmp_path), "a") == tmp_path / "a"
    assert final_name(f"{tmp_path}/", "a") == tmp_path / "a"
    assert final_name(f"{tmp_path}/b", "a") == tmp_path / "b"
    for wrong in (f"{tmp_path}/no/", f"{tmp_path}/no/b", f"{tmp_path}/file/b"):
        with pytest.raises(UserError, match="no such folder"):
            final_name(wrong, "a")
