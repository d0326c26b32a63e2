"""The command line: `python -m toolchain.slurm up | status | down`."""

import argparse
import sys
from pathlib import Path

from toolchain.kubernetes.calls import ToolchainError, say
from toolchain.slurm.cluster import Slurm


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m toolchain.slurm", description=__doc__)
    parser.add_argument("verb", choices=["up", "status", "down"])
    parser.add_argument("--folder", type=Path, help="where it keeps its files")
    arguments = parser.parse_args()
    slurm = Slurm(arguments.folder.absolute()) if arguments.folder else Slurm.default()
    try:
        if arguments.verb == "up":
            slurm.up(say)
        elif arguments.verb == "down":
            slurm.down()
        else:
            say(f"up, {slurm.configuration}" if slurm.is_ready() else "down")
            return 0 if slurm.is_ready() else 1
    except ToolchainError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
