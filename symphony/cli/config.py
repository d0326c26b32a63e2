"""`symphony config`: the settings that a stack can have."""

from __future__ import annotations

from symphony.backends import settings_reader
from symphony.cli import options, screen


def command(as_json: options.AsJson = False) -> None:
    """List the settings that a stack can have: what each takes, its default, the backend it is for.

    They are written in Pulumi.STACK.yaml, below a line `config:`, or by `pulumi config set KEY VALUE`.

    Examples:
        symphony config
        pulumi config set symphony:backend kubernetes --stack rl.gke
    """
    rows = [each.row for each in settings_reader.table()]
    if as_json:
        screen.show_json([dict(zip(settings_reader.COLUMNS, row, strict=True)) for row in rows])
    else:
        screen.show_table(settings_reader.COLUMNS, rows)
