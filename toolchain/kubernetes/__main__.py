"""The command line: `python -m toolchain.kubernetes up | down | status | build | image`."""

import argparse
import sys
import time
from pathlib import Path

from toolchain.kubernetes import build, cluster, docker_build, packages
from toolchain.kubernetes.calls import ToolchainError
from toolchain.kubernetes.layout import Layout


def main() -> int:
    arguments = _parse()
    layout = Layout(arguments.folder.absolute()) if arguments.folder else Layout.default()
    say = _narrator()
    try:
        if arguments.verb == "build":
            packages.ensure(say)
            build.programs(say)
        elif arguments.verb == "up":
            state = cluster.up(layout, kwok_nodes=arguments.kwok, say=say)
            # Tests take down only a cluster that they brought up.
            layout.for_tests.unlink(missing_ok=True)
            sys.stdout.write(state.as_json() + "\n")
        elif arguments.verb == "down":
            if not arguments.force:
                cluster.require_unused(layout)
            cluster.down(layout, purge=arguments.purge, say=say)
        elif arguments.verb == "image":
            state = cluster.status(layout)
            if not state.ready:
                raise ToolchainError("the cluster is not up: `python -m toolchain.kubernetes up`")
            sys.stdout.write(
                docker_build.examples(state.registry, state.docker_host, arguments.begins) + "\n"
            )
        else:
            state = cluster.status(layout)
            sys.stdout.write(state.as_json() + "\n")
            return 0 if state.ready else 1
    except ToolchainError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m toolchain.kubernetes", description=__doc__)
    parser.add_argument("verb", choices=["up", "down", "status", "build", "image"])
    parser.add_argument("--folder", type=Path, help="where the cluster keeps its files")
    parser.add_argument(
        "--begins",
        default="examples/numint",
        metavar="FOLDER",
        help="with `image`, which builds and pushes the image of the examples: where its processes start",
    )
    parser.add_argument(
        "--kwok", type=int, default=0, metavar="N", help="with `up`: add N nodes that do not exist"
    )
    parser.add_argument(
        "--purge", action="store_true", help="with `down`: remove the whole folder, also the images"
    )
    parser.add_argument("--force", action="store_true", help="with `down`: even while tests use it")
    return parser.parse_args()


def _narrator():
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:6.1f} s  {text}\n")
        sys.stderr.flush()

    return say


if __name__ == "__main__":
    sys.exit(main())
