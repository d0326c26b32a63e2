"""`symphony config`: all existing settings, or a stack's settings and parameters."""

import shutil
import textwrap
from collections.abc import Mapping
from typing import Any

from symphony.backends import settings_reader
from symphony.cli import arguments, screen
from symphony.engine.workspace import Secret
from symphony.operations import selected_stack
from symphony.operations.plan import Planned, plan_of

HEAD = ("name", "value", "default", "from")


def command(stack: arguments.Program = None, as_json: arguments.AsJson = False) -> None:
    """List the parameters and settings of a stack with their values. Without a name, list all settings.

    Set them under `config:` in Pulumi.STACK.yaml, with `symphony up STACK -c KEY=VALUE`, or with
    `pulumi config set KEY VALUE`.

    Examples:
        symphony config
        symphony config rl
        pulumi config set symphony:backend kubernetes --stack rl.gke
    """
    if stack is not None:
        _show(selected_stack.select(stack), as_json=as_json)
        return
    rows = [setting.row for setting in settings_reader.table()]
    if as_json:
        screen.show_json([dict(zip(settings_reader.COLUMNS, row, strict=True)) for row in rows])
        return
    width = min(shutil.get_terminal_size().columns, 100)
    for key, takes, default, backend, meaning in rows:
        print(key if backend == "all" else f"{key}  ({backend})")
        for text in (meaning, f"{takes}; by default {default}"):
            print(textwrap.indent(textwrap.fill(text, width - 4), "    "))


def _show(selected: selected_stack.SelectedStack, *, as_json: bool) -> None:
    planned = plan_of(selected)
    # A stack that makes a cluster has no parameters.
    parameters: Mapping[str, Mapping[str, Any]] = planned.parameters if isinstance(planned, Planned) else {}
    rows: list[dict[str, Any]] = [{"name": name, **row} for name, row in parameters.items()]
    defaults = {setting.key: setting.default for setting in settings_reader.table()}
    lines = settings_reader.places(selected.config_file, selected.workspace.folder / "Pulumi.yaml")
    # The engine takes `yes` and 12:30 as text, which PyYAML does not.
    texts = settings_reader.unquoted(selected.config_file, selected.workspace.folder / "Pulumi.yaml")
    prefix = f"{selected.name.project}:"
    for key, setting in selected.config.items():
        if key.removeprefix(prefix) not in parameters:
            is_changed = key in texts and settings_reader.as_text(setting) != texts[key]
            value = "[secret]" if isinstance(setting, Secret) else texts[key] if is_changed else setting
            line = str(lines.get(key, ""))
            rows.append({"name": key, "value": value, "default": defaults.get(key, ""), "from": line})
    if as_json:
        screen.show_json(rows)
    elif not rows:
        print(screen.clean(f"{selected.name.stack} has no parameters and sets no settings."))
    else:
        screen.show_table(HEAD, [[row[name] for name in HEAD] for row in rows])
