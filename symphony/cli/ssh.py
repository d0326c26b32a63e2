"""`symphony ssh`: a shell in a process."""

from __future__ import annotations

from symphony.cli import arguments
from symphony.operations import access


def command(words: arguments.Process) -> int:
    """Work in a process: its window in tmux (C-b d leaves), a login shell in its container on Kubernetes.

    Examples:
        symphony ssh rl learner
    """
    stack, path = arguments.process(words)
    return access.login(stack, path, arguments.streams())
