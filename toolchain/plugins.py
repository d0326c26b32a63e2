"""Puts the plugins of the engine in PULUMI_HOME; `python -m toolchain.plugins`: that of Kubernetes.

The Kubernetes plugin is Pulumi's own: downloaded where releases can be reached, else built from its Go
module. The gcp plugin is a fake, because the tests have no cloud account. Only links are replaced.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from symphony.backends.kubernetes import prerequisites
from symphony.engine import binary
from toolchain import golang
from toolchain.golang import Module, Say
from toolchain.kubernetes.calls import ToolchainError, say
from toolchain.kubernetes.layout import cache_folder

_MODULE = Path(__file__).parent / "modules" / prerequisites.plugin_program(prerequisites.KUBERNETES)
_VERSION = "github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version"
_STAND_IN = Path(__file__).parent / "plugin_gcp" / "bin" / prerequisites.plugin_program(prerequisites.GCP)
# For a slow network. Offline the engine gives up by itself, after five attempts in three seconds.
_DOWNLOAD_WITHIN = 300.0


def install(name: str = prerequisites.KUBERNETES) -> Path:
    """Link the plugin where the engine looks for the version of the Python package; return the link."""
    version = metadata.version(f"pulumi-{name}")
    place = prerequisites.plugin_place(name, version)
    program = _STAND_IN if name == prerequisites.GCP else kubernetes(version, say)
    if not place.is_symlink() and place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(program)
    return place


def kubernetes(version: str, say: Say) -> Path:
    """Return Pulumi's Kubernetes plugin; download or build it if this version is not in the cache."""
    program = prerequisites.plugin_program(prerequisites.KUBERNETES)
    downloaded = cache_folder() / f"plugin-kubernetes-{version}"
    stamp = f"-ldflags=-s -w -X {_VERSION}={version}"
    module = Module(_MODULE, (program,), ("-trimpath", stamp))
    if not (downloaded / program).exists() and not golang.cached(module).is_dir():
        _download(version, downloaded)
    if (downloaded / program).exists():
        return downloaded / program
    return golang.programs(module, say) / program


def _download(version: str, folder: Path) -> None:
    """Let the engine download the release; leave nothing behind if that fails."""
    engine = binary.find()
    if engine is None:
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".downloading-", dir=folder.parent))
    env = {**os.environ, "PULUMI_HOME": str(scratch), "PULUMI_SKIP_UPDATE_CHECK": "true"}
    argv = [engine.pulumi, "plugin", "install", "resource", prerequisites.KUBERNETES, version]
    try:
        done = subprocess.run(argv, env=env, capture_output=True, timeout=_DOWNLOAD_WITHIN, check=False)
        if done.returncode == 0:
            (scratch / "plugins" / f"resource-kubernetes-v{version}").rename(folder)
    except (OSError, subprocess.TimeoutExpired):
        pass  # The build from the Go module says what is missing.
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    """Install the Kubernetes plugin, or only build or download it into the cache."""
    parser = argparse.ArgumentParser(prog="python -m toolchain.plugins")
    parser.add_argument("--only-build", action="store_true", help="leave PULUMI_HOME as it is")
    only_build = parser.parse_args().only_build
    version = metadata.version(f"pulumi-{prerequisites.KUBERNETES}")
    try:
        say(f"{kubernetes(version, say) if only_build else install()}")
    except ToolchainError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
