"""`symphony leaks`: lists processes that run without a stack."""

import sys

from symphony.cli import arguments, screen
from symphony.operations.drift import leaks

HEAD = ("name", "where", "as", "processes", "remove it with")


def command(as_json: arguments.AsJson = False) -> int:
    """List processes that run without a stack, on this machine and in every context of the kubeconfig.

    The exit code is 1 if there are such processes, or if a cluster does not answer.

    Examples:
        symphony leaks
        symphony leaks --json
    """
    leaked, troubles = leaks()
    if as_json:
        screen.show_json({"leaks": leaked, "unknown": troubles})
    elif not leaked:
        print("No process without a stack was found.")
    else:
        rows = [
            (leak.name, leak.where, leak.physical_name, len(leak.processes), leak.remedy) for leak in leaked
        ]
        screen.show_table(HEAD, rows, right=(3,))
    for trouble in () if as_json else troubles:
        print(screen.clean(f"symphony: {trouble}"), file=sys.stderr, flush=True)
    return 1 if leaked or troubles else 0
