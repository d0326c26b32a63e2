"""`symphony up --watch`: each saved change of the code or the program is brought up, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from symphony.cli import plan_table, screen
from symphony.cli.progress import names_of
from symphony.engine.errors import Interrupted
from symphony.errors import SymphonyError
from symphony.operations.plan import Planned
from symphony.operations.sources import Sources
from symphony.plan.problems import count

Bring = Callable[[Callable[[Planned], None]], Planned | None]


def watch(stack: str, sources: Sources, up: Bring) -> None:
    """Bring up each change; up is told how to show a plan, and returns it.

    Interrupted: by Ctrl-C, while the experiment goes on.
    """
    print(
        f"Watching {count(len(sources.state), 'file')} of {stack}. Ctrl-C ends that, not {stack}.", flush=True
    )
    try:
        while True:
            # Whoever reads a pipe is to see how the last one ended.
            sys.stdout.flush()
            sources, changed = sources.wait()
            print(screen.clean(f"{time.strftime('%H:%M:%S')} {names_of(changed)} changed"), flush=True)
            try:
                planned = up(_show)
            except Interrupted:
                raise
            except SymphonyError as error:
                # Half an edit, most likely: the next one mends it.
                screen.show_error(error.line, error.details)
            else:
                sources = sources.after(planned) if planned else sources
    except KeyboardInterrupt:
        again = f"`symphony up {stack} --watch` watches it again, `symphony delete {stack}` ends it"
        raise Interrupted(f"{stack} is not watched any more and goes on", remedy=again) from None


def _show(planned: Planned) -> None:
    """The plan in one line."""
    parts = [f"build image {each.name} ({'; '.join(each.reasons)})" for each in planned.images]
    for kind in ("restart", "start", "stop"):
        rows = [each for each in planned.changes if each.kind == kind]
        if rows:
            # Their long names stand for what is built, which is said.
            whys = {"image" if each.why.startswith("image: ") else each.why for each in rows}
            why = f" ({whys.pop()})" if len(whys) == 1 else ""
            parts.append(f"{kind} {names_of([each.path for each in rows])}{why}")
    parts = parts or ["nothing changes"]
    if kept := planned.count("keep"):
        parts.append(f"{kept} {plan_table.stay(kept)}")
    screen.tell(screen.clean("; ".join(parts)))
