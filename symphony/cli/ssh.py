"""`symphony ssh`: opens the window or a shell of a process."""

from symphony.cli import arguments
from symphony.operations import access


def command(words: arguments.Process) -> int:
    """Attach to a process: its window in tmux (C-b d detaches), a login shell in its container on Kubernetes,
    or a shell on its node on Slurm.

    Examples:
        symphony ssh rl learner
    """
    stack, path = arguments.process(words)
    return access.login(stack, path, arguments.streams())
