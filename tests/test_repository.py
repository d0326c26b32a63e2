"""The repository: cycles of imports, the wheel, locked packages, committed files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
import yaml

import symphony
from tests.sandbox import ROOT


def run(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_there_are_no_import_cycles() -> None:
    """Neither through imports in functions, nor for types alone."""
    providers = [each.name for each in (ROOT / "providers").iterdir()]
    graph = grimp.build_graph("symphony", "caraml", "toolchain", *providers)
    TopologicalSorter(
        {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    ).prepare()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel of this checkout, built with only the locked packages."""
    return unpacked_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


def unpacked_wheel(project: Path, folder: Path) -> Path:
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    built = run(sys.executable, "-m", "pip", "wheel", *offline, "-w", str(folder), str(project), cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_the_wheel_has_every_file_of_the_packages_and_its_license(wheel: Path) -> None:
    """Also the files that are not Python, and the executable bit of a program that the engine starts."""
    committed = set(git_files("symphony", "caraml", "providers"))
    own = {"caraml/pyproject.toml", "caraml/README.md"}  # of the wheel of caraml alone
    wanted = {file.removeprefix("providers/") for file in committed - own}
    (info,) = wheel.glob("symphony_launch-*.dist-info")
    files = {str(file.relative_to(wheel)) for file in wheel.rglob("*") if file.is_file()}
    assert {file for file in files if not file.startswith(info.name)} == wanted
    metadata = (info / "METADATA").read_text()
    assert f"\nVersion: {symphony.__version__}\n" in metadata
    assert "\nLicense-Expression: MIT\n" in metadata
    assert (info / "licenses" / "LICENSE").is_file()
    packages = {file.partition("/")[0] for file in wanted}
    assert {f"{package}/py.typed" for package in packages} <= wanted
    (file,) = wheel.parent.glob("symphony_launch-*.whl")
    with zipfile.ZipFile(file) as archive:
        program = archive.getinfo("symphony/engine/bin/pulumi-resource-pulumi-python")
    assert (program.external_attr >> 16) & 0o111 == 0o111


def test_symphony_runs_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """Imported from the wheel, not from this checkout, which the environment of the tests has on its path."""
    code = (
        "import symphony, symphony_tmux, caraml\n"
        "from symphony import Cluster, Experiment\n"
        "from symphony.cli.main import main\n"
        "print(*(Path(each.__file__).parent for each in (symphony, symphony_tmux, caraml)), sep='\\n')\n"
        "main(['--version'])"
    )
    words = [sys.executable, "-c", f"from pathlib import Path\n{code}"]
    ran = run(*words, cwd=tmp_path, PYTHONPATH=str(wheel), PYTHONDONTWRITEBYTECODE="1")
    *folders, version = ran.stdout.splitlines()
    assert folders == [str(wheel / name) for name in ("symphony", "symphony_tmux", "caraml")], ran.stderr
    assert version.startswith("symphony ")


def test_caraml_can_be_installed_separately(tmp_path: Path) -> None:
    """`pip install CLONE/caraml` works in an environment with only the packages that it requires."""
    site = unpacked_wheel(ROOT / "caraml", tmp_path)
    (info,) = site.glob("*.dist-info")
    metadata = (info / "METADATA").read_text()
    assert f"\nVersion: {symphony.__version__}\n" in metadata
    needed = re.findall(r"^Requires-Dist: ([\w-]+)", metadata, flags=re.M)
    assert sorted(needed) == ["msgpack", "msgspec", "numpy", "pyzmq"]
    installed = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    committed = set(git_files("caraml")) - {"caraml/pyproject.toml", "caraml/README.md"}
    assert {name for name in installed if ".dist-info/" not in name} == committed
    for package in ("msgpack", "msgspec", "numpy", "numpy.libs", "pyzmq.libs", "zmq"):
        source = Path(sysconfig.get_path("platlib")) / package
        if source.is_dir():
            (site / package).symlink_to(source)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "import caraml\n"
        "puller = caraml.ZmqPuller(port=0, deserializer='msgpack')\n"
        "pusher = caraml.ZmqPusher(address=puller.address, serializer='msgpack')\n"
        "pusher.push([1]); print(puller.pull(timeout=10), caraml.__file__)"
    )
    ran = run(sys.executable, "-I", "-S", "-c", code, cwd=tmp_path)
    assert ran.stdout.split() == ["[1]", str(site / "caraml/__init__.py")], ran.stderr


@pytest.mark.parametrize("file", ["dev.txt", "bench.txt", "examples.txt"])
def test_every_locked_package_has_hashes(file: str) -> None:
    """Each package has `name==version` with hashes; the files have no registry address and no option."""
    text = (ROOT / "requirements" / file).read_text()
    lines = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.M)).splitlines()
    wrong = [
        line for line in lines if not re.fullmatch(r"\S+==\S+( ;.*?)?(\s+--hash=sha256:[0-9a-f]{64})+", line)
    ]
    assert len(lines) > 5
    assert wrong == []
    assert "://" not in text


def test_no_binary_is_committed() -> None:
    """Every committed file is text or a picture: programs are built or fetched on each machine."""
    files = [file for file in git_files(".") if not file.endswith(".png")]
    binaries = [file for file in files if b"\0" in (ROOT / file).read_bytes()]
    assert binaries == []


def test_up_of_an_example_in_tmux_changes_no_committed_settings() -> None:
    """The engine adds the salt of its user's passphrase to a stack's settings: only those of remote backends,
    which each user completes, are committed, and without a salt.
    """
    files = [file for file in git_files(".") if re.fullmatch(r"Pulumi\..+\.ya?ml", Path(file).name)]
    settings = {file: yaml.safe_load((ROOT / file).read_text()) for file in files}
    assert settings
    for file, content in settings.items():
        assert "encryptionsalt" not in content, file
        assert content["config"].get("symphony:backend", "tmux") != "tmux", file


def git_files(*folders: str) -> list[str]:
    """Return the existing committed files below some folders."""
    listed = run("git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", *folders, cwd=ROOT)
    assert listed.returncode == 0, listed.stderr
    return [file for file in listed.stdout.split("\0") if file and (ROOT / file).is_file()]
