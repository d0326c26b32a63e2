"""Gets the Pulumi engine: Pulumi's installer, else a build with Go; run as `python -m toolchain.engine`."""

import json
import os
import shutil
import sys
from pathlib import Path

from symphony import paths
from symphony.engine import binary, setup
from symphony.errors import SymphonyError
from toolchain import golang
from toolchain.golang import Module
from toolchain.kubernetes.calls import ToolchainError, run, say

MODULES = Path(__file__).parent / "modules"
_SDK = "github.com/pulumi/pulumi/sdk/v3"
_FLAGS = ("-trimpath", "-tags=osusergo,grpcnotrace")
_HOST = Module(
    MODULES / "pulumi-language-python",
    ("pulumi-language-python-host",),
    _FLAGS,
    built_as="pulumi-language-python",
)
# Scripts of the SDK that must be in the same folder as `pulumi`.
_SCRIPTS = ("cmd/pulumi-language-python-exec", "dist/pulumi-resource-pulumi-python")


def main() -> None:
    """Print where the engine is, after getting it if it is missing."""
    if (engine := binary.find()) is None:
        try:
            engine = setup.engine(say)
        except SymphonyError as error:
            say(f"{error.what}; building it from its Go modules, which takes some minutes")
            build(binary.VERSION)
            engine = binary.require()
    say(f"pulumi: {engine.pulumi}")


def oldest() -> Path:
    """Return the `bin` folder of the oldest engine that symphony supports; build it if it is missing."""
    version = ".".join(map(str, binary.OLDEST))
    folder = paths.cache() / f"pulumi-{version}"
    if not folder.is_dir():
        build(version, "pulumi-oldest")
    return folder / "bin"


def build(version: str, module: str = "pulumi") -> None:
    """Build a `pulumi` command and its Python language host into the cache, atomically."""
    target = paths.cache() / f"pulumi-{version}"
    # The Automation API refuses a `pulumi` without a version.
    stamp = f"-ldflags=-s -w -X {_SDK}/go/common/version.Version=v{version}"
    command_line = Module(MODULES / module, ("pulumi",), (*_FLAGS, stamp))
    with golang.replacing(target) as scratch:
        bin_ = scratch / "bin"
        bin_.mkdir()
        golang.compile_into(bin_, command_line, say)
        golang.compile_into(bin_, _HOST, say)
        shutil.copyfile(_HOST.folder / "pulumi-language-python.sh", bin_ / "pulumi-language-python")
        listed = run([golang.compiler(), "-C", command_line.folder, "list", "-m", "-json", _SDK], timeout=300)
        for script in _SCRIPTS:
            shutil.copyfile(Path(json.loads(listed)["Dir"]) / "python" / script, bin_ / Path(script).name)
        for file in bin_.iterdir():
            file.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)


if __name__ == "__main__":
    os.umask(0o022)
    try:
        main()
    except (SymphonyError, ToolchainError) as error:
        sys.exit(str(error))
