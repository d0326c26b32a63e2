"""Cluster: launch, list and delete experiments from a plain Python script, outside any Pulumi program."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from symphony.backends import registry
from symphony.backends.access import Streams
from symphony.backends.observe import LogLine, ProcessStatus
from symphony.classic.config import SymphonyConfig
from symphony.cli.screen import without_colours
from symphony.components import handover
from symphony.components.experiment import Experiment
from symphony.engine import workspace
from symphony.engine.run import inline
from symphony.engine.state import store
from symphony.errors import SymphonyError, UserError
from symphony.operations import delete as deletion
from symphony.operations import logs as output
from symphony.operations import ls as listing
from symphony.operations import matching, scp, ssh, stacks, switch
from symphony.operations.exec import execute
from symphony.operations.handed import Inbox
from symphony.operations.plan import Planned, planned_from
from symphony.operations.process import processes
from symphony.operations.stack_target import Target
from symphony.operations.up import Ended, up
from symphony.operations.visit import external_address
from symphony.spec.location import caller

if TYPE_CHECKING:
    from symphony.operations.tmux_session import Session


class Cluster:
    """One backend to launch experiments in.

    cluster = Cluster.new("tmux")
    experiment = cluster.new_experiment("rl")
    experiment.new_process("learner", command="python", args=["learner.py"])
    cluster.launch(experiment)

    What is launched here is a Pulumi stack of that name: `symphony` and `pulumi` see and change it too.
    """

    backend = registry.DEFAULT
    own_options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, preamble_cmds: Any = None, start_dir: Any = None, **unknown: Any) -> None:
        for option in unknown:
            raise _mistake(
                f'a {self.backend} cluster has no option "{option}"',
                f"The options are: {', '.join(('preamble_cmds', 'start_dir', *self.own_options))}",
            )
        self._defaults: dict[str, Any] = {"preamble_cmds": preamble_cmds, "start_dir": start_dir}
        self._settings: dict[str, str | None] = {}

    @staticmethod
    def new(backend: str = registry.DEFAULT, **options: Any) -> Cluster:
        """A cluster of a backend: a TmuxCluster, a KubeCluster.

        UserError: no such backend, or it has no such option, with those there are.
        """
        row = registry.named(backend if isinstance(backend, str) else repr(backend))  # pyright: ignore[reportUnnecessaryIsInstance]
        cluster = row.cluster_class(**options)
        cluster.backend = row.name
        return cluster

    def new_experiment(
        self,
        name: str,
        port_range: Any = None,
        secrets: Any = None,
        preamble_cmds: Any = None,
        start_dir: Any = None,
        **settings: Any,
    ) -> Experiment:
        """Declare an experiment; it takes what Experiment takes. What it is not told, this cluster says."""
        said = {
            "port_range": port_range,
            "secrets": secrets,
            "preamble_cmds": preamble_cmds,
            "start_dir": start_dir,
        }
        given = {key: value for key, value in said.items() if value is not None}
        defaults = {key: value for key, value in self._defaults.items() if value is not None}
        return Experiment(SymphonyConfig().prefixed(name), **{**defaults, **given, **settings})

    def launch(self, exp: Experiment, force: bool = False, dry_run: bool = False) -> Ended | Planned:
        """Start it; with dry_run only return the plan, for the caller to print: nothing here prints.

        UserError: one of that name exists (force=True changes it to this one), or it cannot run (PlanError).
        SymphonyError: it is up and some of its processes neither run nor came to a good end.
        """
        if not isinstance(exp, Experiment):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _mistake(f"a {type(exp).__name__} is no experiment", "Launch what new_experiment() returns")
        target = self._target(exp.name)
        folder = self._refuse_second(target, force)
        if dry_run:
            return planned_from(target, lambda t, box: self._run("preview", t, box, exp))
        *_, ended = up(target, lambda t, box: self._run("up", t, box, exp))
        if not isinstance(ended, Ended):
            raise SymphonyError(f"{exp.name} did not come up")
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            exp.dump_yaml(folder / "experiment.yaml")
        if ended.troubled:
            raise _troubled(ended)
        return ended

    def launch_batch(self, experiments: Iterable[Experiment], force: bool = False) -> list[Ended | Planned]:
        """Start several, one after the other."""
        return [self.launch(experiment, force=force) for experiment in experiments]

    def delete(self, name: str, dry_run: bool = False) -> None:
        """Stop an experiment and everything it started. UserError: there is none of that name."""
        stack = self._stack(name)
        if not dry_run:
            for _ in deletion.delete(stack):
                pass

    def delete_batch(self, names: Iterable[str], dry_run: bool = False) -> None:
        """Stop several experiments."""
        for name in names:
            self.delete(name, dry_run=dry_run)

    def list_experiments(self) -> list[str]:
        """The names of the experiments there are."""
        return [each.name for each in listing.ls()]

    def describe_experiment(self, name: str) -> dict[str | None, dict[str, dict[str, Any]]]:
        """{group or None: {process: {column: value}}}."""
        described: dict[str | None, dict[str, dict[str, Any]]] = {}
        for status in processes(self._stack(name)):
            described.setdefault(status.group or None, {})[status.name] = _columns(status)
        return described

    def describe_process_group(self, name: str, process_group: str) -> dict[str, dict[str, Any]]:
        """{process: {column: value}} of one group. UserError: no such group."""
        _require_name("a process group", process_group)
        groups = self.describe_experiment(name)
        known = [group for group in groups if group]
        return groups[matching.match(process_group, known, "process group")]

    def describe_process(self, name: str, process: str, process_group: str | None = None) -> dict[str, Any]:
        """{column: value} of one process. UserError: no such process."""
        statuses = {status.path: status for status in processes(self._stack(name))}
        return _columns(statuses[matching.match(_path(process, process_group), statuses, "process")])

    def get_log(
        self,
        exp: str,
        process: str,
        process_group: str | None = None,
        follow: bool = False,
        since: str | float | None = None,
        tail: int | None = None,
    ) -> Iterator[str]:
        """The lines a process prints; with follow, those to come as well.

        since: the last so many seconds, or "5m", "1h30m"; 0 means all. tail: only so many of the last lines.
        """
        lines: Iterator[LogLine] = output.logs(
            self._stack(exp),
            [_path(process, process_group)],
            follow=follow,
            since=_duration(since),
            tail=_count(tail),
        )
        return (without_colours(line.text) for line in lines)

    def exec_command(
        self, exp: str, process: str, command: Sequence[str] | str, process_group: str | None = None
    ) -> int:
        """Run a command in a process, on the terminal or the pipes of this program; its exit code.

        A command that is one string is split at its blanks as a shell would; no shell runs it.
        """
        words = shlex.split(command) if isinstance(command, str) else [*command]
        return execute(self._stack(exp), _path(process, process_group), words, _streams())

    def login(self, exp: str, process: str, process_group: str | None = None) -> int:
        """Let the person at the terminal work in a process until they leave."""
        return ssh.login(self._stack(exp), _path(process, process_group), _streams())

    def transfer_file(self, exp: str, source: str | Path, target: str | Path) -> None:
        """Copy a file or folder; one of the two is `process:path`. UserError: no such file or process."""
        scp.copy(self._stack(exp), scp.sides(str(source), str(target)))

    def external_url(self, exp: str, service: str) -> str:
        """Where a service can be reached from outside, as host:port.

        UserError: no such service, or it can only be reached through a forwarded port.
        """
        return external_address(self._stack(exp), service)

    def current_experiment(self) -> str | None:
        """The name of the experiment that is meant where none is named; None when there is no such one."""
        try:
            return stacks.one(None).shown
        except UserError:
            return None

    def set_experiment(self, name: str) -> None:
        """From now on this experiment is meant where none is named. UserError: there is none such."""
        switch.remember(self._stack(name).name)

    def fuzzy_match_experiment(self, name: str) -> str:
        """The full name of the experiment that is meant. UserError: none or several."""
        return self._stack(name).shown

    def fuzzy_match_process(self, name: str, process: str) -> str:
        """The path of the process that is meant. UserError: none or several."""
        recorded = self._stack(name).recorded
        return matching.match(process, recorded.processes if recorded else (), "process")

    def _stack(self, name: str) -> stacks.Stack:
        _require_name("an experiment", name)
        prefixed = SymphonyConfig().prefixed(name)
        known = {stack.stack for stack in store.names()}
        return stacks.one(prefixed if prefixed in known else name)

    def _target(self, name: str) -> Target:
        place = inline.workspace_for(name)
        return Target(workspace.stack_name(name, place), place, self._said())

    def _refuse_second(self, target: Target, force: bool) -> Any:
        before = stacks.read(target.name) if store.exists(target.name) else None
        if before is not None and before.recorded is not None and not force:
            raise UserError(
                f"experiment {target.name.stack} exists", remedy="Delete it first, or launch with force=True"
            )
        home = SymphonyConfig().experiment_folder
        folder = home / target.name.stack if home is not None else None
        if folder is not None and folder.exists() and not force:
            raise UserError(
                f"experiment {target.name.stack} was saved before",
                where=str(folder),
                remedy="Give it another name, or launch with force=True",
            )
        return folder

    def _run(self, verb: Any, target: Target, box: Inbox, experiment: Experiment) -> inline.InlineRun:
        def program() -> None:
            handover.answer_in(box.file)
            experiment.launch()

        return inline.InlineRun(
            verb,
            target.workspace,
            target.name.stack,
            program=program,
            options=self._options(target),
            fetch_plugins=bool(registry.get(self.backend).plugins),
        )

    def _options(self, target: Target) -> Sequence[str]:
        """The settings of this cluster, kept with the stack so that the other doors see them."""
        known = workspace.stack_config(target.workspace, target.name.stack)
        before = {"symphony:backend": registry.DEFAULT, "symphony:server": "default", **known}
        return [f"--config={key}={value}" for key, value in self._said().items() if before.get(key) != value]

    def _said(self) -> dict[str, str]:
        """The settings that this cluster gives a stack; those it is not told stay as the stack has them."""
        told = {key: value for key, value in self._settings.items() if value is not None}
        return {"symphony:backend": self.backend, **told}


class TmuxCluster(Cluster):
    """A Cluster of tmux; server_name tells several tmux servers of yours apart."""

    backend = "tmux"
    own_options = ("server_name",)

    def __init__(self, server_name: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._settings = {"symphony:server": server_name}

    def session(self, name: str) -> Session:
        """The libtmux.Session of an experiment; .window("agent-0") is the libtmux.Window of a process."""
        from symphony.operations import tmux_session

        return tmux_session.session(self._stack(name))


class KubeCluster(Cluster):
    """A Cluster of Kubernetes: the one that the current context of your kubeconfig names.

    kubeconfig: the path of another kubeconfig; context: another context of it; image: that of the processes
    that name none. The stack keeps them: kubernetes:kubeconfig, kubernetes:context, symphony:image.
    """

    backend = "kubernetes"
    own_options = ("kubeconfig", "context", "image")

    def __init__(
        self,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        image: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._settings = {
            "kubernetes:kubeconfig": _absolute(kubeconfig),
            "kubernetes:context": _word("context", context),
            "symphony:image": _word("image", image),
        }


def _troubled(ended: Ended) -> SymphonyError:
    """What ends a script with 1 that does not catch it, as `symphony up` ends."""
    from symphony.operations.process import state

    first, *_ = ended.troubled
    error = SymphonyError(
        f"{len(ended.troubled)} of {len(ended.statuses)} processes of {ended.stack} do not run",
        remedy=f"`symphony why {ended.stack} {first.path}` says more",
    )
    error.details = tuple(f"  {each.path}   {state(each)}" for each in ended.troubled)
    return error


def _require_name(kind: str, given: object) -> None:
    if not isinstance(given, str):
        raise _mistake(f"{given!r:.60} is not the name of {kind}", "Give its name")


def _streams() -> Streams:
    sys.stdout.flush()
    return Streams(terminal=os.isatty(0) and os.isatty(1))


def _absolute(kubeconfig: object) -> str | None:
    """The path as every folder understands it. A kubeconfig itself would be read by all in the settings."""
    said = _word("kubeconfig", str(kubeconfig) if isinstance(kubeconfig, Path) else kubeconfig)
    if said is None:
        return None
    if "\n" in said or said.lstrip().startswith("{"):
        raise _mistake("kubeconfig= is a kubeconfig itself", "Write it to a file and give its path")
    return str(Path(said).expanduser().absolute())


def _word(option: str, said: object) -> str | None:
    if said is None or (isinstance(said, str) and said.strip()):
        return said
    raise _mistake(f"{option}={said!r}: must be a non-empty string", "Give a name, or leave it out")


def _mistake(what: str, remedy: str) -> UserError:
    return UserError(what, where=str(caller()), remedy=remedy)


def _duration(said: object) -> str | None:
    """How the logs are told since when; kubectl and the original say 0 for all of them."""
    if said is None or (isinstance(said, (int, float)) and not isinstance(said, bool)):
        return f"{said:.3f}" if said else None
    if isinstance(said, str):
        return None if said == "0" else said
    raise _mistake(f"since={said!r} is no length of time", "Say seconds, or 90s, 5m, 1h30m, 2d")


def _count(said: object) -> int | None:
    if said is None or (isinstance(said, int) and not isinstance(said, bool) and said >= 0):
        return said
    raise _mistake(f"tail={said!r} is no number of lines", "Say 0 or more, or leave it out for all lines")


def _path(process: str, group: str | None) -> str:
    _require_name("a process", process)
    return f"{group}/{process}" if group else process


def _columns(status: ProcessStatus) -> dict[str, Any]:
    from symphony.operations.process import state

    return {
        "Group": status.group,
        "Name": status.name,
        "Ready": int(status.ready),
        "Restarts": status.restarts,
        "State": state(status),
    }
