"""Finding the engine: search order, completeness, version."""

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
def without_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without an engine."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi"))
    assert shutil.which("pulumi") is None
    return tmp_path


def test_a_missing_engine_is_an_error(without_engine: Path) -> None:
    assert binary.find() is None
    with pytest.raises(SymphonyError, match=r"is not installed\. Run `symphony setup`"):
        binary.require()


def test_the_engine_on_path_precedes_cache_and_installer(
    without_engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(without_engine / "pulumi" / "bin")
    assert binary.find() == binary.Engine(without_engine / "pulumi/bin/pulumi", "installer")
    fake(binary.cache_folder() / "bin")
    assert binary.find() == binary.Engine(binary.cache_folder() / "bin" / "pulumi", "cache")
    fake(without_engine / "first")
    monkeypatch.setenv("PATH", f"{without_engine / 'first'}:/usr/bin:/bin")
    assert binary.find() == binary.Engine(without_engine / "first/pulumi", "PATH")


def test_an_incomplete_engine_on_path_is_skipped(
    without_engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(without_engine / "half", parts=("pulumi",))
    monkeypatch.setenv("PATH", f"{without_engine / 'half'}:/usr/bin:/bin")
    assert binary.find() is None
    fake(binary.cache_folder() / "bin")
    assert binary.find() == binary.Engine(binary.cache_folder() / "bin" / "pulumi", "cache")


def test_the_engine_version_is_cached_for_each_binary(without_engine: Path) -> None:
    engine = binary.Engine(fake(without_engine / "bin") / "pulumi", "PATH")
    assert [binary.version(engine) for _ in range(3)] == [(3, 259, 0)] * 3
    assert (without_engine / "bin/asked").read_text().count("asked") == 1
    (engine.pulumi).write_text("#!/bin/sh\necho v3.300.1-alpha.2\n")
    assert binary.version(engine) == (3, 300, 1), "another binary in its place is asked again"


def test_a_too_old_engine_is_refused(without_engine: Path) -> None:
    engine = binary.Engine(fake(without_engine / "bin", "v3.12.0") / "pulumi", "PATH")
    with pytest.raises(SymphonyError, match=r"pulumi 3\.12\.0 is too old"):
        binary.check_age(engine)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho what\n", "no program at all"])
def test_an_engine_that_does_not_start_is_an_error(without_engine: Path, text: str) -> None:
    engine = binary.Engine(fake(without_engine / "bin") / "pulumi", "PATH")
    engine.pulumi.write_text(text)
    with pytest.raises(SymphonyError, match="does not start"):
        binary.version(engine)
