"""Installing the engine with Pulumi's installer: once, atomically, with one-line errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from symphony import paths
from symphony.engine import binary, setup
from symphony.errors import SymphonyError

# Replaces the SDK's installer, which downloads from the internet. Its engine has the version binary.OLDEST.
INSTALL = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1], "bin")
folder.mkdir(parents=True)
open({log!r}, "a").write(sys.argv[2] + "\\n")
{more}
for part in {parts!r}:
    (folder / part).write_text("#!/bin/sh\\necho v3.259.0\\n")
    (folder / part).chmod(0o755)
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the log of the installer on a machine without an engine."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    paths.cache().mkdir(parents=True)
    return tmp_path / "log"


@pytest.fixture
def installer(log: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return installer(code): the fake installer runs that code before it writes the programs."""

    def install(more: str = "") -> None:
        script = INSTALL.format(log=str(log), more=more, parts=binary.PARTS)
        monkeypatch.setattr(setup, "_INSTALL", script)
        monkeypatch.setattr(setup, "INSTALLER", f"file://{__file__}")

    return install


def leftovers() -> list[str]:
    return sorted(path.name for path in paths.cache().glob("building*"))


def test_setup_runs_the_installer_once(log: Path, installer: Callable[[str], None]) -> None:
    installer("")
    progress: list[str] = []
    engine = setup.engine(progress.append)
    assert engine == binary.Engine(binary.cache_folder() / "bin" / "pulumi", "cache")
    assert setup.engine(progress.append) == engine
    assert len(progress) == 1
    assert log.read_text() == f"{binary.VERSION}\n"
    assert leftovers() == []


def test_a_failing_installer_is_a_one_line_error(installer: Callable[[str], None]) -> None:
    installer("sys.exit('some\\nno luck')")
    with pytest.raises(SymphonyError, match="no luck") as error:
        setup.engine(lambda text: None)
    assert "make setup" in error.value.remedy
    assert leftovers() == []
    assert binary.find() is None


@pytest.mark.usefixtures("log")
def test_an_unreachable_download_host_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with pytest.raises(SymphonyError, match=r"get\.pulumi\.com/install\.sh cannot be reached"):
        setup.engine(lambda text: None)


def test_concurrent_setups_install_once(log: Path, installer: Callable[[str], None], tmp_path: Path) -> None:
    installer("time.sleep(1)")
    program = f"""
from symphony.engine import setup
setup._INSTALL = {setup._INSTALL!r}
setup.INSTALLER = {setup.INSTALLER!r}
print(setup.engine(lambda text: None).pulumi)
"""
    both = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert len({process.communicate(timeout=60)[0] for process in both}) == 1
    assert log.read_text().count("\n") == 1
