"""`symphony ssh`: a shell in a process."""

from __future__ import annotations

from symphony.cli import choose, options
from symphony.operations.ssh import login


def command(words: options.Process) -> int:
    """Work in a process: its window in tmux (C-b d leaves), a login shell in its container on Kubernetes.

    Examples:
        symphony ssh rl learner
    """
    stack, path = choose.process(words)
    return login(stack, path, choose.streams())
