"""The environment of an engine process, with the passphrase."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from symphony.engine import environment


def test_variables_of_the_user_override_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOGC", raising=False)
    env = environment.for_engine()
    assert env["PULUMI_SKIP_UPDATE_CHECK"] == "true"
    assert "PULUMI_SKIP_CHECKPOINTS" not in env, "that is for a run to decide"
    assert env["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] == "true"
    assert env["GOGC"] == "200"
    assert "GOGC" not in environment.defaults(), "a shell that takes our exports keeps its own"
    monkeypatch.setenv("PULUMI_BACKEND_URL", "gs://bucket")
    monkeypatch.setenv("GOGC", "50")
    monkeypatch.delenv("USER", raising=False)
    monkeypatch.setenv("PULUMI_SKIP_UPDATE_CHECK", "false")
    monkeypatch.setenv("PULUMI_PYTHON_CMD", "/my/python")
    env = environment.for_engine(fetch_plugins=True, extra={"MINE": "1"})
    assert env["PULUMI_SKIP_UPDATE_CHECK"] == "false"
    assert env["PULUMI_PYTHON_CMD"] == "/my/python"
    assert env["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] == "false"
    assert (env["PULUMI_BACKEND_URL"], env["GOGC"], env["MINE"]) == ("gs://bucket", "50", "1")
    assert "USER" not in env, "processes keep what the user has"
    assert env["PATH"] == os.environ["PATH"], "the program and its processes inherit it"


def test_a_user_without_a_name_gets_one_for_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine writes it into locks, and fails without one."""

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("USER", raising=False)
    monkeypatch.setattr(environment.pwd, "getpwuid", unknown)
    assert environment.for_engine()["USER"] == f"uid-{os.getuid()}"


def test_exports_of_symphony_env_do_not_disable_plugin_downloads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"
    monkeypatch.setenv(name, "true")
    assert environment.for_engine(fetch_plugins=True)[name] == "true", "the user's own word"
    monkeypatch.setenv(environment.EXPORTED, "1")
    assert environment.for_engine(fetch_plugins=True)[name] == "false"
    assert environment.for_engine()[name] == "true"


def test_the_engine_does_not_find_the_plugin_of_symphony_env_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", environment.path_with(path, environment.BIN))
    assert environment.for_engine()["PATH"] == path


@pytest.mark.parametrize("given", ["", "example.com"])
def test_grpc_to_the_engine_bypasses_proxies(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no_grpc_proxy" not in environment.for_engine()
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", given)
    env = environment.for_engine()
    assert env["no_grpc_proxy"].split(",") == [*filter(None, [given]), "127.0.0.1"]
    assert env["no_proxy"] == given, "programs of an experiment keep theirs"


def test_path_starts_with_symphony_and_the_engine_once() -> None:
    folders = (Path("/ours"), Path("/opt/engine"))
    once = environment.path_with("/usr/bin:/opt/engine:/bin", *folders)
    assert once == "/ours:/opt/engine:/usr/bin:/bin"
    assert environment.path_with(once, *folders) == once


def test_the_umask_of_the_caller_is_passed_on(any_umask: int) -> None:
    assert environment.for_engine()[environment.UMASK_VARIABLE] == f"{any_umask:04o}"


def test_the_generated_passphrase_is_used_only_if_the_user_set_none(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, any_umask: int
) -> None:
    assert environment.passphrase_variables(environment.own_store()) == {}
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    assert environment.passphrase_variables("file:///elsewhere") == {}
    assert not (own_home / "passphrase").exists()
    result = environment.passphrase_variables(environment.own_store())
    assert result == {"PULUMI_CONFIG_PASSPHRASE_FILE": str(own_home / "passphrase")}
    assert stat.S_IMODE((own_home / "passphrase").stat().st_mode) == 0o600
    assert stat.S_IMODE(own_home.stat().st_mode) == 0o700
    assert len((own_home / "passphrase").read_text()) > 30
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "")
    assert environment.passphrase_variables(environment.own_store()) == {}, (
        "an empty passphrase is a choice too"
    )


def test_concurrent_commands_generate_one_passphrase(own_home: Path) -> None:
    program = "from symphony.engine import environment; print(environment.ensure_passphrase().read_text())"
    with ThreadPoolExecutor(6) as pool:
        result = pool.map(lambda _: subprocess.check_output([sys.executable, "-c", program]), range(6))
    assert len(set(result)) == 1
    assert [path.name for path in own_home.iterdir()] == ["passphrase"]
