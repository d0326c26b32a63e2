"""State read directly from the files of the backend."""

from __future__ import annotations

import gzip
import json
import stat
from pathlib import Path

import pytest

from symphony.engine.state import file_store
from symphony.errors import SymphonyError

NAME = file_store.StackName("symphony", "rl")
ROOT = "urn:pulumi:rl::symphony::pulumi:pulumi:Stack::symphony-rl"
# A dynamic resource that a killed engine began to create: it has no inputs to delete it by.
BEGUN = {"urn": "urn:x::agent-1", "type": "pulumi-python:dynamic/x:Y", "custom": True}
CHECKPOINT = {
    "version": 3,
    "checkpoint": {
        "stack": "organization/symphony/rl",
        "latest": {
            "manifest": {"time": "2026-11-21T09:10:00Z", "magic": "x", "version": "v3.259.0"},
            "resources": [
                {"urn": ROOT, "type": "pulumi:pulumi:Stack", "outputs": {"answer": 42}, "unheardOf": [1]},
                {
                    "urn": "urn:pulumi:rl::symphony::t:index:T::agent-0",
                    "type": "t:index:T",
                    "custom": True,
                    "id": "%4",
                    "parent": ROOT,
                    "inputs": {"args": ["a"]},
                    "outputs": {"pid": 7.0},
                    "created": "2026-11-21T09:10:00.123456789Z",
                    "modified": "nonsense",
                },
                {"urn": "urn:pulumi:rl::symphony::t:index:T::agent-0", "type": "t:index:T", "delete": True},
            ],
            "pending_operations": [{"type": "creating", "resource": BEGUN}],
        },
    },
}


def write(text: str | bytes, name: file_store.StackName = NAME, ending: str = ".json") -> Path:
    file = file_store.root() / "stacks" / name.project / f"{name.stack}{ending}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_read_resources_and_pending_operations(ending: str) -> None:
    data = json.dumps(CHECKPOINT).encode()
    write(gzip.compress(data) if ending == ".json.gz" else data, ending=ending)
    state = file_store.read_state(NAME)
    assert state.name == NAME
    root, agent, *_ = state.resources
    assert root.outputs == {"answer": 42}
    assert (agent.name, agent.id, agent.parent) == ("agent-0", "%4", ROOT)
    assert agent.created == pytest.approx(1795252200.123456)
    assert len(state.resources) == 2, "a resource marked for deletion is left out"
    assert state.pending == ("urn:x::agent-1",)


def test_names_lists_stacks_and_ignores_other_files() -> None:
    for project, stack in (("b", "z"), ("a", "rl.gke"), ("a", "rl")):
        write("{}", file_store.StackName(project, stack))
    for clutter in ("rl.json.bak", "rl.json.attrs", "rl.pulumi-tags", "noise.tmp"):
        write("{}", file_store.StackName("a", clutter), ending="")
    assert [str(name) for name in file_store.names()] == [
        "organization/a/rl",
        "organization/a/rl.gke",
        "organization/b/z",
    ]


def test_without_state_there_are_no_stacks() -> None:
    assert file_store.names() == []
    assert not file_store.exists(NAME)
    with pytest.raises(KeyError):
        file_store.read_state(NAME)
    write('{"version": 3, "checkpoint": {"stack": "organization/symphony/rl"}}')
    assert file_store.read_state(NAME).resources == (), "it has not run yet"


@pytest.mark.parametrize("text", ["", '{"version":0,"checkpoint":{"stack":"organization/symphony/rl"}}'])
def test_an_empty_state_file_without_backup_is_set_aside(text: str) -> None:
    file = write(text)
    file.with_name("rl.json.bak").write_text(text)
    with pytest.warns(UserWarning, match="was empty and has no copy"), pytest.raises(KeyError):
        file_store.read_state(NAME)
    assert not file_store.exists(NAME)
    assert file.with_name("rl.json.damaged").read_text() == text


def test_a_state_of_a_newer_version_is_refused() -> None:
    write(json.dumps({**CHECKPOINT, "version": 9}))
    with pytest.raises(SymphonyError, match="the state of rl has version 9"):
        file_store.read_state(NAME)


def test_an_unreadable_state_file_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    file = write("{}")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(SymphonyError, match="cannot be read") as error:
        file_store.read_state(NAME)
    assert (error.value.where, error.value.remedy) == (str(file), "Take ownership of that file (chown)")


def test_prepare_makes_a_private_folder(any_umask: int) -> None:
    file_store.prepare()
    assert stat.S_IMODE(file_store.root().parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("file:///var/state", "/var/state/.pulumi"),
        ("file:///var/state?metadata=skip", "/var/state/.pulumi"),
        ("file://~/state", str(Path("~/state/.pulumi").expanduser())),
        ("file://~", str(Path("~/.pulumi").expanduser())),
        ("file://./here", str(Path("here/.pulumi").absolute())),
    ],
)
def test_state_folder_of_each_backend_url(url: str, place: str) -> None:
    assert str(file_store.root(url)) == place
