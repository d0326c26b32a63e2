"""`symphony drift`: compares a running experiment with its declaration."""

from __future__ import annotations

from symphony.cli import arguments, screen
from symphony.operations.drift import drift

HEAD = ("process", "object", "field", "declared", "lives")


def command(name: arguments.Experiment = None, as_json: arguments.AsJson = False) -> int:
    """Compare the running experiment with its declaration, field by field.

    The exit code is 1 if they differ.

    Examples:
        symphony drift rl
        symphony drift rl.gke --json
    """
    stack = arguments.experiment(name)
    rows = drift(stack)
    if as_json:
        screen.show_json([row.to_json() for row in rows])
    elif not rows:
        print(screen.clean(f"{stack.display_name} runs as it was declared."))
    else:
        cells = [(row.path, row.object, row.field, _short(row.declared), _short(row.lives)) for row in rows]
        screen.show_table(HEAD, cells)
        print(screen.clean(f"`symphony up {stack.display_name}` restores the declaration."))
    return 1 if rows else 0


def _short(fact: object) -> str:
    return screen.cut(str(fact))
