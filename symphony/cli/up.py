"""`symphony up`: plans, asks, starts and watches; with --watch, again after each change of a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from symphony.backends.observe import ProcessStatus
from symphony.cli import arguments, plan_table, screen
from symphony.cli.progress import Board, alike, names_of
from symphony.engine.errors import Interrupted
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError, UserError
from symphony.operations import selected_stack, stacks, sweep
from symphony.operations.plan import Planned, ProgramOutput, plan_of
from symphony.operations.process import processes, state
from symphony.operations.up import Ended, ResourcesEnded, UpEvent, Watched, up
from symphony.plan.names import listed, sort_key
from symphony.plan.problems import count

if TYPE_CHECKING:
    # Only --watch needs it.
    from symphony.operations.sources import Sources

# An `up` that takes longer, in seconds, prints what took the time.
_LONG = 5.0
# How many of the slowest processes of a chain are named.
_LINKS = 6
Up = Callable[[Callable[[Planned], None]], Planned | None]


def command(
    stack: arguments.Program = None,
    yes: arguments.Yes = False,
    dry_run: arguments.DryRun = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Repeat after each saved change of the code or the program.")
    ] = False,
    config: arguments.Config = None,
    run: Annotated[
        int | None, typer.Option("--run", metavar="N", help="Use the code and settings of run N.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="After the start, wait until the experiment has completed.")
    ] = False,
    as_json: arguments.AsJson = False,
) -> int:
    """Show the plan, ask, start new processes, restart changed ones and stop removed ones.

    Examples:
        symphony up
        symphony up rl -y
        symphony up rl --dry-run
        symphony up rl -c lr=0.3 -c workers=8
        symphony up 'sweep.*' -y
        symphony up rl --run 6
        symphony up rl --watch
        symphony up rl -y --wait
    """
    if watch and (wait or run is not None):
        what = f"--watch and {'--wait' if wait else '--run'} exclude each other"
        raise UserError(what, remedy="Use only one of them")
    if as_json and watch:
        raise UserError("--watch cannot print JSON", remedy="Remove --watch or --json")
    arguments.require_yes(as_json=as_json, yes=yes or dry_run)
    if stack is not None and (names := selected_stack.select_all(stack)):
        if watch or run is not None:
            what = f"{'--watch' if watch else '--run'} works with a single experiment"
            raise UserError(what, remedy=f"Name one of: {listed(names)}")
        if not (yes or dry_run):
            print("\n".join(names))
            arguments.confirm(f"Bring up these {count(len(names), 'experiment')}?")
        from symphony.cli.at_once import run_all

        options = ["--dry-run" if dry_run else "--yes", *(f"--config={word}" for word in config or ())]
        options += ["--wait"] if wait else []
        return run_all("up", names, options, as_json=as_json)
    selected, output = _select(stack, config), ProgramOutput()
    to = sys.stderr if as_json else sys.stdout
    if run is not None:
        selected = _selected_run(selected, run, to)
    with selected_stack.guard_settings_file(selected, dry_run=dry_run):
        if dry_run or not yes:
            output.to(lambda line: print(screen.program_line(line), file=to, flush=True))
            planned = plan_of(selected, output)
            screen.show_json(planned.to_json()) if as_json else plan_table.show(planned)
            if dry_run:
                return 0
            if not planned.changes_nothing:
                arguments.confirm("Proceed?")
        show = plan_table.show if yes else None
        planned, code, facts = _run(selected, show, output, as_json=as_json, later=wait)
    if watch and planned is not None:
        from symphony.operations import sources

        _watch(
            selected.name,
            sources.from_plan(selected.workspace, planned),
            lambda show: _run(_select(stack, config), show, ProgramOutput())[0],
        )
    if wait and planned is not None:
        from symphony.cli.wait import wait_for

        statuses, code = wait_for(stacks.read(selected.name), to=to)
        if as_json:
            screen.show_json({**facts, "processes": statuses, "exit": code})
    return code


def _select(stack: str | None, config: Sequence[str] | None) -> selected_stack.SelectedStack:
    selected = selected_stack.select(stack, config)
    if sweep.read(selected.name) is not None:
        name = selected.name.stack
        what = f"{name} is a sweep, which `up` cannot start"
        raise UserError(what, remedy=f"Run `symphony sweep {name}` to continue it")
    return selected


def _selected_run(
    selected: selected_stack.SelectedStack, number: int, to: TextIO
) -> selected_stack.SelectedStack:
    """Return the stack with the code and settings of a run; print the differences from that run."""
    from symphony.operations import rerun

    if selected.overrides:
        raise UserError(
            "-c and --run exclude each other",
            remedy="Give one of them: --run N runs the code and settings of run N,"
            " -c KEY=VALUE sets a parameter or setting for the current code",
        )
    restored, differences = rerun.prepare(selected, number)
    if differences:
        print(f"Different from run {number}:", file=to)
    for paths, line in differences:
        print(screen.clean(f"  {names_of(paths) or 'all'}: {line}"), file=to, flush=True)
    return restored


def _run(
    selected: selected_stack.SelectedStack,
    show: Callable[[Planned], None] | None,
    output: ProgramOutput,
    *,
    as_json: bool = False,
    later: bool = False,
) -> tuple[Planned | None, int, dict[str, Any]]:
    """Return the plan that was carried out, the exit code, and the JSON of the experiment's end.

    later: whether the caller prints that JSON.
    """
    planned: Planned | None = None
    with Board(quiet=as_json) as board:
        output.to(output_writer(board, quiet=as_json))
        for event in interruptible(up(selected, output=output), selected):
            board.show(event, show)
            match event:
                case Planned():
                    planned = event
                case Ended():
                    changes = [change.to_json() for change in planned.changes] if planned else []
                    facts = {"stack": event.stack, "changes": changes, **end_json(event)}
                    if not as_json:
                        show_end(event)
                    elif not later:
                        screen.show_json(facts)
                    return planned, int(bool(event.troubled)), facts
                case ResourcesEnded():
                    resources = count(event.resources, "resource")
                    use = f"experiments use it with `symphony:cluster: {event.stack}`"
                    text = f"{event.stack} is up: {resources}, in {event.seconds:.1f} s; {use}."
                    screen.show_json(event) if as_json else print(screen.clean(text))
                    return planned, 0, {}
                case _:
                    pass
    return planned, 1, {}


def output_writer(board: Board, *, quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a line of the program's output on the board, or on standard error."""
    if quiet:
        return lambda line: print(screen.program_line(line), file=sys.stderr, flush=True)
    return lambda line: board.say(screen.program_line(line))


def interruptible(events: Iterable[UpEvent], selected: selected_stack.SelectedStack) -> Iterable[UpEvent]:
    """Yield the events; on Ctrl-C while processes start, raise Interrupted."""
    watched: Watched | None = None
    try:
        for event in events:
            watched = event if isinstance(event, Watched) else watched
            yield event
    except KeyboardInterrupt:
        if watched is None:
            raise
        left = sum(1 for status in watched.statuses if status.state not in ("running", "completed"))
        not_running = f"{count(left, 'process', 'processes')} not running yet"
        what = f"stopped watching the start of {selected.name.stack}, which continues: {not_running}"
        raise Interrupted(what, remedy=f"`symphony process {selected.name.stack}` shows them") from None


def end_json(ended: Ended) -> dict[str, Any]:
    """Return the JSON of an end."""
    statuses = sorted(ended.statuses, key=lambda status: sort_key(status.path))
    return {"seconds": ended.seconds, "processes": statuses}


def show_end(ended: Ended, text: str = "") -> None:
    """Print the processes that are in trouble or have a `why`, then `text` or a summary of the end."""
    statuses = [status for status in ended.statuses if status in ended.troubled or status.why]
    statuses.sort(key=lambda status: sort_key(status.path))
    for names, status in alike(statuses):
        print(screen.clean(f"  {names}   {state(status)}   symphony why {ended.stack} {status.path}"))
        # A single last line is already part of the state.
        for line in status.words if len(status.words) > 1 else ():
            print(screen.clean(f"    | {line}"))
    # Processes that never ran have no logs.
    logs = f"   symphony logs {ended.stack} -f" if ended.has_begun else ""
    if ended.seconds > _LONG and len(ended.chain) > 1:
        print(screen.clean(f"  {_chain(ended.chain)}"))
    print(screen.clean(f"{text or ended}{logs}"))


def _chain(chain: Sequence[tuple[str, float]]) -> str:
    """Return `prepare 41 s > replay 3 s > ... > learner 9 s`."""
    longest = sorted(chain, key=lambda link: link[1])[-_LINKS:]
    words: list[str] = []
    for path, seconds in chain:
        if (path, seconds) in longest:
            words.append(f"{path} {seconds:.0f} s")
        elif words[-1:] != ["..."]:
            words.append("...")
    return " > ".join(words)


def _watch(name: StackName, files: Sources, up_again: Up) -> None:
    """Bring the stack up again after each change of a file, until Ctrl-C raises Interrupted.

    `up_again` runs `up`, and prints the plan with its argument.
    """
    stack, failures = name.stack, _Failures(name)
    watched = count(len(files.state), "file")
    print(f"Watching {watched} of {stack}. Ctrl-C stops watching; {stack} keeps running.", flush=True)
    try:
        failures.remember()
        while True:
            files, changed = files.wait(failures.report)
            print(screen.clean(f"{time.strftime('%H:%M:%S')} {names_of(changed)} changed"), flush=True)
            try:
                planned = up_again(plan_table.show_changes)
            except Interrupted:
                raise
            except SymphonyError as error:
                # Most likely half an edit, which the next change completes.
                screen.show_error(error.line, error.details)
            else:
                files = files.after(planned) if planned else files
            failures.remember()
            # The reader of a pipe sees the end at once.
            sys.stdout.flush()
    except KeyboardInterrupt:
        remedy = f"`symphony up {stack} --watch` watches again, `symphony delete {stack}` stops it"
        raise Interrupted(f"Stopped watching {stack}; it keeps running", remedy=remedy) from None


class _Failures:
    """Reports processes that fail while files are watched."""

    def __init__(self, name: StackName) -> None:
        self._name = name
        self._known: set[tuple[str, float | None]] = set()

    def remember(self) -> None:
        """Remember the processes that have failed so far."""
        self._known = {(status.path, status.since) for status in self._failed_processes()}

    def report(self) -> None:
        """Print the processes that have failed since."""
        failed = self._failed_processes()
        new = [status for status in failed if (status.path, status.since) not in self._known]
        self._known = {(status.path, status.since) for status in failed}
        for names, status in alike(new):
            why = f"symphony why {self._name.stack} {status.path}"
            line = f"{time.strftime('%H:%M:%S')} {names}   {state(status)}   {why}"
            print(screen.clean(line), flush=True)

    def _failed_processes(self) -> list[ProcessStatus]:
        try:
            return [s for s in processes(stacks.read(self._name)) if s.state in ("failed", "lost")]
        except SymphonyError:
            # Other commands report a backend that does not answer.
            return []
