"""Runs numint from `up` to `delete` and checks the result; `make demo` calls it.

It uses the commands that a user would type: up, logs, delete. It has its own stack, so that your numint is
not affected, and first deletes what a killed demo left, so that it reads no old output.
"""

import argparse
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

STACK = "numint.demo"
# With its project: a name alone would also match a longer one.
TO_DELETE = f"symphony/{STACK}"
ROOT = Path(__file__).resolve().parents[2]
SYMPHONY = str(Path(sys.executable).with_name("symphony"))
# The line of reducer.py with the result.
RESULT = re.compile(r"\w+ = .*: (?P<verdict>right|WRONG)")
# The exit code for every mistake of the user, such as the name of an experiment that does not exist.
NOTHING_THERE = 2
DELETING = 120.0
STOPPING = 20.0


class Failed(Exception):
    """A step of the demo failed."""


def main() -> int:
    """Return 0 if the result is right; 1 if it is wrong, late, or something is left over."""
    parser = argparse.ArgumentParser(description="Runs numint and says whether the result is right.")
    parser.add_argument("--deadline", type=float, default=300, help="seconds for up, and for the result")
    deadline = parser.parse_args().deadline
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        delete(shown=False)
        try:
            up(deadline)
            verdict = follow(deadline)
        finally:
            delete()
    except Failed as failure:
        print(f"demo: {failure}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if verdict == "right" else 1


def up(deadline: float) -> None:
    """Start the experiment, and show the output of `up`."""
    print(f"$ symphony up {STACK} -y", flush=True)
    with subprocess.Popen([SYMPHONY, "up", STACK, "-y"], cwd=ROOT) as process:
        try:
            code = process.wait(timeout=deadline)
        except KeyboardInterrupt:
            # Ctrl-C reached the child as well.
            process.wait()
            raise
        except BaseException as error:
            interrupt(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise Failed(f"the experiment was not up within {deadline:.0f} s") from None
            raise
    if code != 0:
        raise Failed(f"`symphony up` ended with exit code {code}")


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a command, and kill it if it does not end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=STOPPING)
    except subprocess.TimeoutExpired:
        process.kill()


def follow(deadline: float) -> str:
    """Show the output of all processes until the reducer has its result; return its verdict."""
    print(f"$ symphony logs {STACK} -f", flush=True)
    command = [SYMPHONY, "logs", STACK, "-f"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as logs:
        watchdog = threading.Timer(deadline, logs.kill)
        watchdog.start()
        try:
            for line in logs.stdout or ():
                print(line, end="", flush=True)
                who, _, text = line.rstrip().partition(" | ")
                if who.strip() == "reducer" and (match := RESULT.fullmatch(text)):
                    return match["verdict"]
                if who.strip() == "reducer" and text.startswith("ended: "):
                    break
            in_time = watchdog.is_alive()
        finally:
            watchdog.cancel()
            logs.kill()
    raise Failed("the reducer came to no result" + ("" if in_time else f" within {deadline:.0f} s"))


def delete(shown: bool = True) -> None:
    """Delete the experiment if there is one."""
    command = [SYMPHONY, "delete", TO_DELETE, "-y"]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=DELETING, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"`symphony delete` did not end within {DELETING:.0f} s") from None
    if done.returncode == NOTHING_THERE:
        return
    if shown or done.returncode != 0:
        print(f"$ symphony delete {TO_DELETE} -y\n{done.stdout}{done.stderr}", end="", flush=True)
    if done.returncode != 0:
        raise Failed(f"`symphony delete` ended with exit code {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
