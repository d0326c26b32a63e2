"""Finding the engine: the order of places, completeness, age."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from symphony.engine import binary
from symphony.errors import SymphonyError


def fake(folder: Path, version: str = "v3.259.0", parts: tuple[str, ...] = binary.PARTS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        (folder / part).write_text(f"#!/bin/sh\necho asked >> {folder}/asked\necho {version}\n")
        (folder / part).chmod(0o755)
    return folder


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without an engine."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi"))
    assert shutil.which("pulumi") is None
    return tmp_path


def test_none(nowhere: Path) -> None:
    assert binary.find() is None
    with pytest.raises(SymphonyError, match=r"is not on this machine\. Run `symphony setup`"):
        binary.require()


def test_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(nowhere / "pulumi" / "bin")
    assert binary.find() == binary.Engine(nowhere / "pulumi/bin/pulumi", "installer")
    fake(binary.cache_folder() / "bin")
    assert binary.find() == binary.Engine(binary.cache_folder() / "bin" / "pulumi", "cache")
    fake(nowhere / "first")
    monkeypatch.setenv("PATH", f"{nowhere / 'first'}:/usr/bin:/bin")
    assert binary.find() == binary.Engine(nowhere / "first/pulumi", "PATH")


def test_half_an_engine_on_path_is_passed_over(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(nowhere / "half", parts=("pulumi",))
    monkeypatch.setenv("PATH", f"{nowhere / 'half'}:/usr/bin:/bin")
    assert binary.find() is None
    fake(binary.cache_folder() / "bin")
    assert binary.find() == binary.Engine(binary.cache_folder() / "bin" / "pulumi", "cache")


def test_version_is_asked_once(nowhere: Path) -> None:
    engine = binary.Engine(fake(nowhere / "bin") / "pulumi", "PATH")
    assert [binary.version(engine) for _ in range(3)] == [(3, 259, 0)] * 3
    assert (nowhere / "bin/asked").read_text().count("asked") == 1
    (engine.pulumi).write_text("#!/bin/sh\necho v3.300.1-alpha.2\n")
    assert binary.version(engine) == (3, 300, 1), "another binary in its place is asked again"


def test_too_old(nowhere: Path) -> None:
    engine = binary.Engine(fake(nowhere / "bin", "v3.12.0") / "pulumi", "PATH")
    with pytest.raises(SymphonyError, match=r"pulumi 3\.12\.0 is too old"):
        binary.check_age(engine)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho what\n", "no program at all"])
def test_broken(nowhere: Path, text: str) -> None:
    engine = binary.Engine(fake(nowhere / "bin") / "pulumi", "PATH")
    engine.pulumi.write_text(text)
    with pytest.raises(SymphonyError, match="does not start"):
        binary.version(engine)
