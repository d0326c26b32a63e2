"""Installs the engine, and Debian packages, if they are missing."""

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from symphony import files, paths
from symphony.engine import binary
from symphony.engine.binary import Engine
from symphony.errors import SymphonyError

DEADLINE = 30 * 60.0
INSTALLER = "https://get.pulumi.com/install.sh"
_CONNECT_TIMEOUT = 5.0
_INSTALL = """
import sys
from pulumi.automation import PulumiCommand
from semver import VersionInfo
PulumiCommand.install(root=sys.argv[1], version=VersionInfo.parse(sys.argv[2]), skip_version_check=True)
"""

Report = Callable[[str], None]


def engine(report: Report) -> Engine:
    """Return the engine; install it with Pulumi's own installer if it is missing."""
    with files.locked(paths.cache() / "setup.lock", seconds=DEADLINE, what="the set-up"):
        if binary.find() is None:
            report("engine: running Pulumi's installer")
            _install(binary.cache_folder())
        return binary.require()


def _install(target: Path) -> None:
    """Install into a folder that appears atomically."""
    try:
        # The SDK waits without limit for a host that does not answer.
        urllib.request.urlopen(INSTALLER, timeout=_CONNECT_TIMEOUT).close()
    except (OSError, ValueError) as error:
        raise _unavailable(f"{INSTALLER} cannot be reached") from error
    with tempfile.TemporaryDirectory(prefix="building-", dir=paths.cache()) as scratch:
        root = Path(scratch) / "root"
        _run([sys.executable, "-c", _INSTALL, str(root), binary.VERSION], _unavailable)
        shutil.rmtree(target, ignore_errors=True)
        root.rename(target)


def _unavailable(reason: str) -> SymphonyError:
    return SymphonyError(
        f"the Pulumi engine cannot be installed: {reason}",
        remedy="Install Pulumi (pulumi.com/docs/install), or build it by `make setup` in a clone of symphony",
    )


def debian_package(package: str, report: Report) -> bool:
    """Install a Debian package; return False if this user or machine cannot.

    Raises:
        SymphonyError: The installation failed.
    """
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    report(f"{package}: installing with apt-get")
    install = ["apt-get", "install", "-y", "--no-install-recommends", package]

    def install_error(reason: str) -> SymphonyError:
        return SymphonyError(
            f"the Debian package {package} cannot be installed: {reason}", remedy=f"Run `{' '.join(install)}`"
        )

    try:
        _run(install, install_error)
    except SymphonyError:
        _run(["apt-get", "update"], install_error)
        _run(install, install_error)
    return True


def _run(command: Sequence[str], failed: Callable[[str], SymphonyError]) -> None:
    """Run a program to its end; on a failure, raise the error that `failed` returns for its last line."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=DEADLINE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise failed(str(error)) from error
    if done.returncode:
        raise failed(next(reversed(done.stdout.strip().splitlines()), f"exit code {done.returncode}"))
