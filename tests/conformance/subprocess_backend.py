"""The third backend in the conformance suite, and the environment in which symphony finds it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path

from tests.conformance.local_backend import LocalBackend
from tests.sandbox import ROOT, wait_for

DISTRIBUTION = ROOT / "tests" / "third_backend"
_SYMPHONY = "import sys\nfrom symphony.cli.main import main\nsys.exit(main())\n"


def environment(place: Path) -> Path:
    """An environment of its own that has all of this one, and the third backend; its `symphony`."""
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    (packages,) = place.glob("lib/python*/site-packages")
    base = sysconfig.get_path("purelib")
    (packages / "base.pth").write_text(f"import site; site.addsitedir({base!r})\n")
    # hatchling looks for what git ignores above.
    source = shutil.copytree(DISTRIBUTION, place / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", f"--python={python}"]
    options = ["--no-index", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "install", *options, str(source)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    symphony = place / "bin" / "symphony"
    symphony.write_text(f"#!{python}\n{_SYMPHONY}")
    symphony.chmod(0o755)
    return symphony


class SubprocessBackend(LocalBackend):
    name = "subprocess"
    crowd = 12

    def settings(self, stack: str) -> Mapping[str, str]:
        return {"backend": "subprocess", "grace": "2"}

    def lose(self, stack: str, path: str) -> None:
        """Its supervisor first: nobody writes down how it ended."""
        supervisor = int(self.identities(stack)[path][0].split()[0])
        os.kill(supervisor, signal.SIGKILL)
        self._kill_all(f"{stack}/{path}")

    def vanish(self, stack: str) -> None:
        for folder in self._folders(stack):
            shutil.rmtree(folder)
        self._kill_all(f"{stack}/")

    def leftovers(self, stack: str) -> list[str]:
        trees = [f"process {name}" for name in self.sandbox.trees() if name.startswith(f"{stack}/")]
        return [*trees, *map(str, self._folders(stack))]

    def _folders(self, stack: str) -> list[Path]:
        return list((self.sandbox.home / "subprocess").glob(f"*_{stack}#*"))

    def _kill_all(self, prefix: str) -> None:
        def living() -> list[int]:
            return [
                pid for name, pids in self.sandbox.trees().items() if name.startswith(prefix) for pid in pids
            ]

        for pid in living():
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not living(), 10, f"{prefix} is gone")
