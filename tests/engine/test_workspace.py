"""Finding projects, stack names, settings, hidden projects for scripts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from symphony import paths
from symphony.engine import workspace
from symphony.engine.state import file_store
from symphony.engine.workspace import Secret
from symphony.errors import UserError

PROJECT = """
name: symphony
runtime:
  name: python
  options: {virtualenv: .venv}
stackConfigDir: stacks
plugins: {providers: []}
config:
  workers: {type: integer, default: 4}
  aws:region: here
  empty: {type: string}
"""


@pytest.fixture
def place(tmp_path: Path) -> workspace.Workspace:
    (tmp_path / "p/stacks").mkdir(parents=True)
    (tmp_path / "p/Pulumi.yaml").write_text(PROJECT)
    return workspace.load(tmp_path / "p/Pulumi.yaml")


def test_a_project_is_found_from_a_subfolder(place: workspace.Workspace, tmp_path: Path) -> None:
    below = place.folder / "stacks/deep"
    below.mkdir()
    assert workspace.find(below) == place
    assert (place.project, place.virtualenv) == ("symphony", ".venv")
    assert place.config_folder == place.folder / "stacks"
    assert workspace.find(tmp_path) is None
    with pytest.raises(UserError, match=r"found no Pulumi\.yaml in this folder or above"):
        workspace.require(tmp_path)


def test_a_deleted_folder_has_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert workspace.find_usable() is None
    with pytest.raises(UserError, match="this folder was deleted"):
        workspace.require()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\nruntime: nodejs\n", "Pulumi.yaml sets runtime to 'nodejs'"),
        ("runtime: python\n", "project name None"),
        ("name: 'a b'\nruntime: python\n", "project name 'a b'"),
        ("name: [\n", "Pulumi.yaml is not YAML: expected"),
        ("- a\n", "Pulumi.yaml is not a mapping"),
        ("", "Pulumi.yaml sets no runtime"),
        ("name: x\nruntime: python\ndescription: '\x00'\n", "is not YAML"),
    ],
)
def test_an_invalid_pulumi_yaml_is_a_user_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "Pulumi.yaml").write_text(text)
    with pytest.raises(UserError) as error:
        workspace.find(tmp_path)
    assert message in str(error.value)
    assert str(tmp_path / "Pulumi.yaml") in str(error.value)
    assert error.value.remedy
    assert workspace.find_usable(tmp_path) is None


def test_a_project_file_named_pulumi_yml_is_refused(tmp_path: Path) -> None:
    """With it, Pulumi reads the settings of stacks from Pulumi.STACK.yml."""
    (tmp_path / "Pulumi.yml").write_text("name: x\nruntime: python\n")
    with pytest.raises(UserError, match=r"is called Pulumi\.yml"):
        workspace.find(tmp_path)


def test_a_missing_virtualenv_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text(
        "name: x\nruntime:\n  name: python\n  options:\n    virtualenv: venv\n"
    )
    place = workspace.require(tmp_path)
    with pytest.raises(UserError, match="names the virtualenv venv, which is missing") as error:
        workspace.require_virtualenv(place)
    assert error.value.where == str(tmp_path / "venv")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").touch()
    workspace.require_virtualenv(place)


def test_a_copy_of_code_uses_the_virtualenv_of_its_project(tmp_path: Path, own_home: Path) -> None:
    """Trials of a sweep said that `../venv` is missing."""
    code = own_home / "sweeps" / "code"
    code.mkdir(parents=True)
    (code / "Pulumi.yaml").write_text("name: x\nruntime: {name: python, options: {virtualenv: ../venv}}\n")
    assert workspace.load(code / "Pulumi.yaml").virtualenv == "../venv"
    (code.parent / paths.ORIGIN).write_text(f'{{"code": "{code}", "folder": "{tmp_path / "lab"}"}}')
    assert workspace.load(code / "Pulumi.yaml").virtualenv == str(tmp_path / "lab" / "../venv")


def test_copied_settings_mean_the_same_to_the_engine() -> None:
    """PyYAML reads `off` as false, 12:30 as 750, and writes the text 1e3 without quotes."""
    text = "mode: off\ntime: 12:30\nname: 1e3\nsize: 64\nrate: 0.5\nfast: true\n"
    settings = {"mode": "off", "time": "12:30", "name": "1e3", "size": 64, "rate": 0.5, "fast": True}
    assert workspace.load_yaml(text) == settings
    written = workspace.dump_yaml(settings)
    assert written.splitlines()[:4] == ['"mode": "off"', '"time": "12:30"', '"name": "1e3"', '"size": 64']
    assert workspace.load_yaml(written) == settings


def test_stack_settings_override_project_settings(place: workspace.Workspace) -> None:
    assert workspace.stack_config(place, "rl") == {"symphony:workers": 4, "aws:region": "here"}
    workspace.config_file(place, "rl").write_text(
        "encryptionsalt: v1:x\n"
        "config:\n  symphony:backend: tmux\n  symphony:workers: 8\n  symphony:key: {secure: v1:abc}\n"
        "  symphony:list: [1, 2]\n"
    )
    assert workspace.stack_config(place, "rl") == {
        "aws:region": "here",
        "symphony:workers": 8,
        "symphony:backend": "tmux",
        "symphony:key": Secret(),
        "symphony:list": [1, 2],
    }


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_the_stack_settings_is_refused(place: workspace.Workspace) -> None:
    os.mkfifo(workspace.config_file(place, "rl"))
    with pytest.raises(UserError, match="not a regular file"):
        workspace.stack_config(place, "rl")


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("rl", "organization/symphony/rl"),
        ("rl.gke", "organization/symphony/rl.gke"),
        ("other/rl", "organization/other/rl"),
        ("me/other/rl", "me/other/rl"),
    ],
)
def test_stack_names_are_completed_with_organization_and_project(
    place: workspace.Workspace, name: str, full: str
) -> None:
    assert str(workspace.stack_name(name, place)) == full
    assert str(workspace.stack_name("rl", None)) == "organization/symphony/rl"


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b/c/d", "a//b", "r;l", "r\nl", "x" * 101, "é", "$(x)"])
def test_invalid_stack_names_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="is not a valid name of a stack"):
        workspace.stack_name(name, None)


def test_a_hidden_project_is_private_and_reused(own_home: Path, tmp_path: Path, any_umask: int) -> None:
    odd = tmp_path / "it's odd: #1"
    first = workspace.private_workspace("proj", "rl", main=odd)
    assert workspace.load(first.folder / "Pulumi.yaml").project == "proj"
    assert own_home in first.folder.parents
    assert first.folder.stat().st_mode & 0o077 == 0
    workspace.config_file(first, "rl").write_text("config: {'proj:a': 1}\n")
    again = workspace.private_workspace("proj", "rl", main=odd)
    assert workspace.stack_config(again, "rl") == {"proj:a": 1}
    assert sorted(path.name for path in again.folder.iterdir()) == ["Pulumi.rl.yaml", "Pulumi.yaml"]


def test_for_stack_uses_the_current_project_or_a_hidden_one(
    place: workspace.Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = file_store.StackName("symphony", "rl")
    monkeypatch.chdir(place.folder)
    # The engine would write the settings of a stack that has none into the project.
    assert workspace.for_stack(name).hidden
    workspace.config_file(place, "rl").touch()
    assert workspace.for_stack(name) == place
    assert workspace.for_stack(file_store.StackName("other", "rl")).hidden
    monkeypatch.chdir(tmp_path)
    assert workspace.for_stack(name).hidden


@pytest.mark.usefixtures("engine")
def test_create_stack_is_idempotent(tiny: workspace.Workspace) -> None:
    before = (tiny.folder / "Pulumi.yaml").read_text()
    assert workspace.create_stack(tiny, "dev")
    assert not workspace.create_stack(tiny, "dev")
    assert file_store.names() == [file_store.StackName("tiny", "dev")]
    assert (tiny.folder / "Pulumi.yaml").read_text() == before


@pytest.mark.thorough
def test_destroy_works_without_the_project_folder(
    run: object, tiny: workspace.Workspace, tmp_path: Path
) -> None:
    """The state has everything that destroy needs."""
    from symphony.engine.run.run import Run

    run("up")  # type: ignore[operator]
    name = file_store.StackName("tiny", "dev")
    elsewhere = workspace.private_workspace(name.project, name.stack)
    os.rename(tiny.folder, tmp_path / "moved")  # noqa: PTH104
    with Run("destroy", elsewhere, "dev", extra={"PYTHONPATH": str(tmp_path / "moved")}) as destroy:
        list(destroy)
    assert destroy.outcome.result == "succeeded", destroy.outcome
    assert file_store.read_state(name).resources == ()
