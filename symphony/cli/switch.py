"""`symphony switch`: the current experiment."""

from __future__ import annotations

from symphony.cli import choose, options, screen
from symphony.operations import switch


def command(name: options.Experiment = None) -> None:
    """Make an experiment the one that is meant where none is named; without a name, say which one is.

    Examples:
        symphony switch rl
        symphony switch
    """
    stack = choose.experiment(name)
    if name is not None:
        switch.remember(stack.name)
    print(screen.clean(stack.shown))
