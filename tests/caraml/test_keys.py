"""The command that creates key folders."""

import pytest

import caraml
from caraml.keys import main as keys_main
from caraml.zmq import (
    ZmqPuller,
    ZmqPusher,
)


def test_keys_command_creates_private_keys(tmp_path, capsys):
    keys_main([str(tmp_path / "keys"), "agent-1", "agent-2"])
    assert "agent-1.secret" in capsys.readouterr().out
    folder = tmp_path / "keys"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert len((folder / "allowed").read_text().splitlines()) == 2
    agent = f"{folder}:agent-2"
    with ZmqPuller(port=0, keys=folder) as puller, ZmqPusher(address=puller.address, keys=agent) as pusher:
        pusher.push(b"x")
        assert puller.pull(timeout=5) == b"x"
    for wrong in ("server", "../x", ""):
        with pytest.raises(SystemExit) as ended:
            keys_main([str(folder), wrong])
        assert ended.value.code == 1
    (folder / "server.secret").chmod(0o644)
    with pytest.raises(caraml.KeyFileError, match="chmod 600"):
        ZmqPuller(port=0, keys=folder)


@pytest.mark.parametrize("half", ["server.public", "server.secret", "client.public", "client.secret"])
def test_half_a_key_pair_is_kept_and_reported(tmp_path, capsys, half):
    """A client's folder has only `server.public`, which creating keys there once replaced."""
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / half).write_text("k" * 40)
    with pytest.raises(SystemExit) as ended:
        keys_main([str(folder)])
    assert ended.value.code == 1
    assert f"{folder / half} exists without" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == [half]
    assert (folder / half).read_text() == "k" * 40


def test_existing_keys_are_kept_when_keys_are_added(tmp_path):
    keys_main([str(tmp_path), "a"])
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    keys_main([str(tmp_path), "a", "b"])
    after = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {name: after[name] for name in before if name != "allowed"} == {
        name: text for name, text in before.items() if name != "allowed"
    }
    assert after["allowed"].startswith(before["allowed"])
    assert after["allowed"].count("\n") == 2
