"""`symphony config`: the settings of a stack."""

from __future__ import annotations

import shutil
import textwrap

from symphony.backends import settings_reader
from symphony.cli import arguments, screen


def command(as_json: arguments.AsJson = False) -> None:
    """List the settings of a stack: values, default, backend.

    Set them under `config:` in Pulumi.STACK.yaml, or with `pulumi config set KEY VALUE`.

    Examples:
        symphony config
        pulumi config set symphony:backend kubernetes --stack rl.gke
    """
    rows = [setting.row for setting in settings_reader.table()]
    if as_json:
        screen.show_json([dict(zip(settings_reader.COLUMNS, row, strict=True)) for row in rows])
        return
    width = min(shutil.get_terminal_size().columns, 100)
    for key, takes, default, backend, meaning in rows:
        print(f"{key}" + ("" if backend == "all" else f"  ({backend})"))
        for text in (meaning, f"{takes}; by default {default}"):
            print(textwrap.indent(textwrap.fill(text, width - 4), "    "))
