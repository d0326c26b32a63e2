"""Runs numint from end to end and says whether the result is right; `make demo` calls it.

Only what a person would type: up, logs, delete. It has a stack of its own, so that a numint of yours is left
alone, and first takes away what a killed demo has left, so that no old output is taken for its own.
"""

import argparse
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

STACK = "numint.demo"
# With its project, for a part of a name would do where nothing has the whole.
TO_DELETE = f"symphony/{STACK}"
ROOT = Path(__file__).resolve().parents[2]
SYMPHONY = str(Path(sys.executable).with_name("symphony"))
# The line of reducer.py that tells the result.
RESULT = re.compile(r"\w+ = .*: (?P<verdict>right|WRONG)")
NOTHING_THERE = 2
DELETING = 120.0
STOPPING = 20.0


class Failed(Exception):
    """A step of the demo did not do its work."""


def main() -> int:
    """0: the result is right; 1: it is wrong, or did not come in time, or something is left over."""
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
    """Start the experiment, shown live."""
    print(f"$ symphony up {STACK} -y", flush=True)
    with subprocess.Popen([SYMPHONY, "up", STACK, "-y"], cwd=ROOT) as process:
        try:
            code = process.wait(timeout=deadline)
        except KeyboardInterrupt:
            # Ctrl-C went to it as well.
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
    """Let a command stop in good order, else end it."""
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
    """Take the experiment away, if there is one."""
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
