"""The process that runs the trials of a sweep; `symphony sweep` starts it in a tmux window."""

import sys

from symphony.cli import screen
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError
from symphony.operations.sweep_run import Runner


def main(words: list[str]) -> int:
    """Run a sweep to its end.

    words: its project, its name and its generation, which only makes a repeated `symphony sweep` restart this
    process.
    """
    project, name, _generation = words
    try:
        Runner(StackName(project, name), lambda line: print(screen.clean(line), flush=True)).run()
    except SymphonyError as error:
        screen.show_error(error.line, error.details)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
