"""Runs numint from end to end and says whether the result is right; `make demo` calls it.

Only what a person would type: up, logs, delete.
"""

import subprocess
import sys
from pathlib import Path

STACK = "numint"
RESULT = "pi = "
SYMPHONY = str(Path(sys.executable).with_name("symphony"))
PATIENCE = 300.0


def main() -> int:
    print(f"$ symphony up {STACK} -y", flush=True)
    if subprocess.run([SYMPHONY, "up", STACK, "-y"], timeout=PATIENCE, check=False).returncode != 0:
        delete()
        return 1
    try:
        print(f"$ symphony logs {STACK} -f", flush=True)
        result = follow()
    finally:
        delete()
    print(result or "the reducer came to no result")
    return 0 if result.endswith(": right") else 1


def follow() -> str:
    """Show the output of all processes until the reducer has its result; return that line."""
    with subprocess.Popen(
        [SYMPHONY, "logs", STACK, "-f"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as logs:
        assert logs.stdout is not None
        try:
            for line in logs.stdout:
                print(line, end="", flush=True)
                who, _, text = line.rstrip().partition(" | ")
                if who.strip() == "reducer" and text.startswith(RESULT):
                    return text
        finally:
            logs.terminate()
    return ""


def delete() -> None:
    print(f"$ symphony delete {STACK} -y", flush=True)
    subprocess.run([SYMPHONY, "delete", STACK, "-y"], timeout=PATIENCE, check=False)


if __name__ == "__main__":
    sys.exit(main())
