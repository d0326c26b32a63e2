"""The folders of symphony: environment variables, users without a home, unsafe folders."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from symphony import paths
from symphony.engine import environment
from symphony.errors import UserError
from tests.sandbox import Sandbox


def test_a_user_without_home_is_told_to_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without HOME and without an entry in /etc/passwd."""

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("SYMPHONY_HOME")
    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(UserError, match="no home folder"):
        paths.home()


def test_pulumis_folder_is_where_the_engine_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The engine takes the home of the user database: a plugin in $HOME/.pulumi would not be found."""
    monkeypatch.delenv("PULUMI_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.pulumi_home() == Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pulumi"
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    assert paths.pulumi_home() == tmp_path


@pytest.mark.parametrize("given", ["", "state", "./state", "~/state"])
def test_a_relative_xdg_folder_is_ignored(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The XDG specification requires it; otherwise commands would keep state in the current folder."""
    monkeypatch.delenv("SYMPHONY_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("XDG_STATE_HOME", given)
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    assert paths.home() == Path("/home/ada/.local/state/symphony")
    assert paths.cache() == Path("/home/ada/.cache/symphony")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert (paths.home(), paths.cache()) == (Path("/state/symphony"), Path("/cache/symphony"))


@pytest.mark.parametrize("character", ["#", "?", "%", "\n"])
def test_a_symphony_home_that_cannot_be_in_a_backend_url_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, character: str
) -> None:
    monkeypatch.delenv("PULUMI_BACKEND_URL")
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path / f"my{character}home"))
    with pytest.raises(UserError) as refused:
        paths.store_url()
    assert repr(character) in refused.value.what
    assert refused.value.line.isprintable()
    assert refused.value.remedy == "Set SYMPHONY_HOME or PULUMI_BACKEND_URL to another folder"
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}/state?no_tmp_dir=true")
    assert paths.store_url().endswith("?no_tmp_dir=true")


def test_a_relative_store_is_that_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a plain `pulumi`; the engine itself runs in the folder of the project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file://./st?no_tmp_dir=true")
    assert paths.store_url() == f"file://{tmp_path}/st?no_tmp_dir=true"
    assert environment.for_engine()["PULUMI_BACKEND_URL"] == paths.store_url()


def test_the_engine_gets_the_absolute_path_of_a_relative_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise providers, which run in the folder of the project, start processes in another home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYMPHONY_HOME", "rel")
    assert environment.for_engine()["SYMPHONY_HOME"] == f"{tmp_path}/rel"


def test_up_keeps_its_state_in_a_relative_store(sandbox: Sandbox) -> None:
    sandbox.write('with Experiment() as e:\n    e.new_process("a", command=["sleep", "600"])')
    inner = sandbox.folder / "inner"
    inner.mkdir()
    here = {"cwd": inner, "env": {"PULUMI_BACKEND_URL": "file://./st"}}
    sandbox.symphony("up", "rl", "-y", **here)
    assert sandbox.processes("rl", **here)["a"]["state"] == "running"
    assert not (sandbox.folder / "st").exists()


@pytest.mark.parametrize("part", [".", "state"])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_home_writable_by_other_users_is_refused(
    own_home: Path, part: str, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state contains serialized code, which another user could replace."""
    folder = own_home / part
    folder.mkdir(parents=True, mode=0o700)
    assert paths.home() == own_home
    monkeypatch.setattr(paths, "_checked_folders", set())
    folder.chmod(mode)
    with pytest.raises(UserError, match="other users can write") as caught:
        paths.home()
    assert f"chmod go-w {folder}" in caught.value.remedy


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("part", [".", pytest.param("state", marks=pytest.mark.thorough)])
def test_every_command_refuses_a_home_of_another_user(sandbox: Sandbox, part: str) -> None:
    folder = sandbox.home / part
    folder.mkdir(parents=True, exist_ok=True)
    os.chown(folder, 4711, -1)
    for words in (["ls"], ["up", "rl", "-y"], ["delete", "rl", "-y"], ["plan", "rl"]):
        ran = sandbox.symphony(*words, code=None)
        assert ran.code in (1, 2)
        assert "another user (uid 4711)" in ran.err
        assert len(ran.err.splitlines()) == 1
    os.chown(folder, 0, -1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
@pytest.mark.parametrize("part", [".", "state"])
def test_a_home_behind_a_link_of_another_user_is_refused(own_home: Path, tmp_path: Path, part: str) -> None:
    """The owner of the link could lead it to a folder of his own after the check."""
    target, link = tmp_path / "target", own_home / part
    target.mkdir(mode=0o700)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    assert paths.home() == own_home
    paths._checked_folders.clear()
    os.chown(link, 4711, -1, follow_symlinks=False)
    with pytest.raises(UserError, match="another user"):
        paths.home()


def test_a_home_behind_a_link_to_a_missing_folder_is_refused(own_home: Path) -> None:
    """A disk that is not mounted must not look like a state without experiments."""
    own_home.parent.mkdir(parents=True, exist_ok=True)
    own_home.symlink_to("/not/mounted")
    with pytest.raises(UserError, match="/not/mounted"):
        paths.home()
