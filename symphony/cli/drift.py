"""`symphony drift`: compares a running experiment with its declaration."""

from symphony.cli import arguments, screen
from symphony.operations.drift import Drift, drift, is_content
from symphony.operations.stacks import Stack

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
        screen.show_json(rows)
    elif not rows:
        print(screen.clean(f"{stack.display_name} runs as it was declared."))
    else:
        cells = [(row.path, row.object, row.field, _short(row.declared), _short(row.lives)) for row in rows]
        screen.show_table(HEAD, cells)
        print(*map(screen.clean, _remedies(stack, rows)), sep="\n")
    return 1 if rows else 0


def _remedies(stack: Stack, rows: list[Drift]) -> list[str]:
    """Return the commands that restore the declaration, in their order."""
    name = stack.display_name
    # A row without a field is an object that no longer exists, which `up` creates again.
    changed = [row for row in rows if row.field and stack.backend == "kubernetes"]
    # `symphony restart` replaces pods and Jobs, no other objects.
    pods = {row.path: None for row in changed if row.object.startswith(("Pod ", "Job "))}
    lines = [f"`symphony restart {name} {' '.join(pods)}` restores the pods."] if pods else []
    # The next `up` compares only the content of ConfigMaps and Secrets with the cluster; for the rest, the
    # engine compares the declaration with its state, which does not have the change yet.
    stale = [row for row in changed if row.path not in pods and not is_content(row.object, row.field)]
    rest = "rest" if lines else "declaration"
    if stale:
        refresh = f'`eval "$(symphony env)"; pulumi refresh -s {name}`'
        return [*lines, f"Run {refresh} and then `symphony up {name}` to restore the {rest}."]
    by_up = any(row not in changed or is_content(row.object, row.field) for row in rows)
    return [*lines, f"`symphony up {name}` restores the {rest}."] if by_up else lines


def _short(fact: object) -> str:
    return screen.cut(str(fact))
