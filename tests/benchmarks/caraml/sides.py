"""Install caraml 0.10.0 beside ours, and measure one side of a row by a consumer and a producer."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROLES = Path(__file__).with_name("roles.py")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "symphony" / "bench-peers"


def install_peers() -> None:
    if not (CACHE / "caraml-0.10.0.dist-info").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        requirements = ROOT / "requirements" / "bench.txt"
        subprocess.run([*command, "--target", str(CACHE), "-r", str(requirements)], check=True)


def measure(side: str, pattern: str, payload: str, count: int) -> float:
    """Return the seconds a message takes."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(CACHE if side == "original" else ROOT)}
    roles = [
        subprocess.Popen(
            [sys.executable, str(ROLES), side, pattern, role, payload, str(count), str(port)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=tempfile.gettempdir(),
        )
        for role in ("consume", "produce")
    ]
    try:
        output, _ = roles[1].communicate(timeout=120)
        return float(output.split()[-1])  # the original prints
    finally:
        for role in roles:
            role.kill()
            role.communicate()
