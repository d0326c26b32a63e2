"""A network namespace in which a second cluster can run beside the first."""

import subprocess
import time
from pathlib import Path


class Elsewhere:
    """Runs commands in one network namespace, which has only a loopback interface."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        here = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{self._holder.pid}/ns/net").readlink() == here:
            time.sleep(0.01)
        self.inside = ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *argv: str, stdin: str | None = None, ok: bool = True, timeout: float = 150) -> str:
        words = [*self.inside, *argv]
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
        assert done.returncode == 0 or not ok, done.stdout + done.stderr
        return done.stdout

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait(10)
