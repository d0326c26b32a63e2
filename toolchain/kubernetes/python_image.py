"""An image made of this machine's Python, for machines that cannot pull base images from the internet.

In it: the interpreter, its standard library, what all examples but surreal import, a shell with its tools.
"""

import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from toolchain.kubernetes import images
from toolchain.kubernetes.calls import ToolchainError, run
from toolchain.kubernetes.layout import REGISTRY

# The packages that `caraml` and all examples but surreal import, and the folders of their shared libraries.
PACKAGES = ("msgpack", "msgspec", "numpy", "zmq")
LINKED = ("numpy.libs", "pyzmq.libs")
# The default folders of the loader, and files that no process of an experiment needs.
_LIBRARIES = "usr/lib"
_LEFT_OUT = (
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "ensurepip",
    "__pycache__",
)


@cache
def push() -> str:
    """Push the image unless the registry has it; return its name, which depends on its content."""
    files = dict(_files())
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        digest.update(f"{name}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    image = f"{REGISTRY}/symphony/python:{digest.hexdigest()[:16]}"
    if not images.is_pushed(image):
        python = f"/usr/bin/{_interpreter().name}"
        tools = {f"bin/{tool}": "busybox" for tool in images.TOOLS}
        links = {"bin/python": python, "bin/python3": python, **tools}
        contents = {name: file.read_bytes() for name, file in files.items()}
        images.push(image, contents, ["/bin/sh"], links=links)
    return image


def _files() -> Iterator[tuple[str, Path]]:
    """Return path in the image -> the file of this machine."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    yield "bin/busybox", images.busybox_program()
    yield f"usr/bin/{_interpreter().name}", _interpreter()
    programs = [_interpreter()]
    folders = [(f"usr/lib/{version}", Path(sysconfig.get_path("stdlib")))]
    folders += [(f"{_packages_folder(version)}/{package.name}", package) for package in _packages()]
    for target, folder in folders:
        for file in _tree(folder):
            if file.name.partition(".so")[1]:
                programs.append(file)
            yield f"{target}/{file.relative_to(folder)}", file
    yield from linked_libraries(programs)


def _interpreter() -> Path:
    return Path(sys.executable).resolve()


def _packages_folder(version: str) -> str:
    """Return the folder in which this interpreter finds packages; Debian's is different."""
    output = run([_interpreter(), "-c", "import site; print(site.getsitepackages()[0])"]).strip()
    is_debian = output.endswith("dist-packages")
    return f"usr/local/lib/{version}/dist-packages" if is_debian else f"usr/lib/{version}/site-packages"


def _packages() -> Iterator[Path]:
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ToolchainError(f"{name} is not installed for {sys.executable}: run `make python`")
        yield Path(spec.origin).parent
    for name in LINKED:
        folder = Path(sysconfig.get_path("platlib")) / name
        if folder.is_dir():
            yield folder


def _tree(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and entry.name not in _LEFT_OUT and not entry.name.startswith("config-"):
            yield from _tree(entry)
        elif (
            entry.is_file() and entry.suffix not in (".a", ".pyi", ".h", ".c") and "tkinter" not in entry.name
        ):
            yield entry


def linked_libraries(programs: list[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the libraries that these files are linked with, and the dynamic loader."""
    bundled = {program.name for program in programs}
    libraries: dict[str, Path] = {}
    loaders: set[str] = set()
    for line in run(["ldd", *programs], timeout=60).splitlines():
        words = line.split()
        if words[1:2] == ["=>"] and words[2] != "not":
            libraries[words[0]] = Path(words[2])
        elif words[0].startswith("/") and "=>" not in line and ":" not in line:
            loaders.add(words[0])
    for name, file in sorted(libraries.items()):
        if name not in bundled:
            yield f"{_LIBRARIES}/{name}", file.resolve()
    for loader in sorted(loaders):
        yield loader.removeprefix("/"), Path(loader).resolve()
