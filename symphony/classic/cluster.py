"""Cluster: launch, list and delete experiments from a plain Python script, outside any Pulumi program."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, overload

from symphony.backends import registry
from symphony.backends.access import Streams
from symphony.backends.observe import LogLine, ProcessStatus
from symphony.classic import options
from symphony.classic.config import SymphonyConfig
from symphony.cli.screen import without_colours
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
from symphony.operations.plan import Planned, planned_from
from symphony.operations.process import processes
from symphony.operations.stack_target import Target
from symphony.operations.up import Ended, up
from symphony.operations.visit import external_address
from symphony.plan import plan_file
from symphony.plan.plan_file import PlanFile
from symphony.spec.experiment import ExperimentOptions
from symphony.spec.shared import Text, Texts

if TYPE_CHECKING:
    from symphony.operations.tmux_session import Session


class Cluster:
    """One backend to launch experiments in.

    cluster = Cluster.new("tmux")
    experiment = cluster.new_experiment("rl")
    experiment.new_process("learner", command="python", args=["learner.py"])
    cluster.launch(experiment)

    preamble_cmds, start_dir: what Experiment takes, for the experiments that do not say it.

    What is launched here is a Pulumi stack of that name: `symphony` and `pulumi` see and change it too. Names
    of experiments, groups and processes may be given by a part of them. UserError: none or several match.
    """

    backend = registry.DEFAULT
    options_type: ClassVar[type[Any]] = options.ClusterOptions

    def __init__(self, **given: Unpack[options.ClusterOptions]) -> None:
        known = self.options_type.__annotations__
        for option in given:
            if option not in options.ClusterOptions.__annotations__:
                raise options.mistake(
                    f'a {self.backend} cluster has no option "{option}"',
                    f"The options are: {', '.join(known)}",
                )
        self._defaults: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        self._settings: dict[str, str | None] = {}

    @overload
    @staticmethod
    def new(backend: options.Tmux = "tmux", **given: Unpack[options.TmuxOptions]) -> TmuxCluster: ...
    @overload
    @staticmethod
    def new(backend: options.Kubernetes, **given: Unpack[options.KubeOptions]) -> KubeCluster: ...
    @overload
    @staticmethod
    def new(backend: options.Backend, **given: Unpack[options.ClusterOptions]) -> Cluster: ...
    @staticmethod
    def new(backend: str = registry.DEFAULT, **given: Any) -> Cluster:
        """A cluster of a backend, with the options of its class: Cluster.new("tmux", start_dir="~/rl").

        backend: "tmux" for a TmuxCluster; "kubernetes", "kube", "k8s" or "gke" for a KubeCluster.
        UserError: no such backend, or it has no such option, with those there are.
        """
        row = registry.named(backend if isinstance(backend, str) else repr(backend))  # pyright: ignore[reportUnnecessaryIsInstance]
        cluster = row.cluster_class(**given)
        cluster.backend = row.name
        return cluster

    @overload
    def new_experiment(self, name: str, **given: Unpack[ExperimentOptions]) -> Experiment: ...
    @overload
    def new_experiment(
        self,
        name: str,
        port_range: Sequence[int] | None,
        secrets: Texts | None = None,
        preamble_cmds: Texts | None = None,
        start_dir: Text | None = None,
    ) -> Experiment: ...
    def new_experiment(
        self,
        name: str,
        port_range: Any = None,
        secrets: Any = None,
        preamble_cmds: Any = None,
        start_dir: Any = None,
        **given: Any,
    ) -> Experiment:
        """Declare an experiment; it takes what Experiment takes. What it is not told, this cluster says."""
        given.update(port_range=port_range, secrets=secrets, preamble_cmds=preamble_cmds, start_dir=start_dir)
        made = {key: value for key, value in given.items() if value is not None}
        return Experiment(SymphonyConfig().prefixed(name), **{**self._defaults, **made})

    @overload
    def launch(self, exp: Experiment, force: bool = False, dry_run: Literal[False] = False) -> Ended: ...
    @overload
    def launch(self, exp: Experiment, force: bool = False, *, dry_run: Literal[True]) -> Planned: ...
    @overload
    def launch(self, exp: Experiment, force: bool = False, dry_run: bool = False) -> Ended | Planned: ...
    def launch(self, exp: Experiment, force: bool = False, dry_run: bool = False) -> Ended | Planned:
        """Start it; with dry_run only return the plan, for the caller to print: nothing here prints.

        UserError: one of that name exists (force=True changes it to this one), or it cannot run (PlanError).
        SymphonyError: it is up and some of its processes neither run nor came to a good end.
        """
        if not isinstance(exp, Experiment):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise options.mistake(
                f"a {type(exp).__name__} is no experiment", "Launch what new_experiment() returns"
            )
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
        """Start several, one after the other. UserError: as launch(); those before it stay up."""
        return [self.launch(experiment, force=force) for experiment in experiments]

    def delete(self, name: str, dry_run: bool = False) -> None:
        """Stop an experiment and everything it started; with dry_run only look for it."""
        stack = self._stack(name)
        if not dry_run:
            for _ in deletion.delete(stack):
                pass

    def delete_batch(self, names: Iterable[str], dry_run: bool = False) -> None:
        """Stop several experiments, one after the other."""
        for name in names:
            self.delete(name, dry_run=dry_run)

    def list_experiments(self) -> list[str]:
        """The names of the experiments there are."""
        return [each.name for each in listing.ls()]

    def describe_experiment(self, name: str) -> dict[str | None, dict[str, dict[str, Any]]]:
        """{group or None: {process: {column: value}}}; columns: Group, Name, Ready, Restarts, State."""
        described: dict[str | None, dict[str, dict[str, Any]]] = {}
        for status in processes(self._stack(name)):
            described.setdefault(status.group or None, {})[status.name] = _columns(status)
        return described

    def describe_process_group(self, name: str, process_group: str) -> dict[str, dict[str, Any]]:
        """{process: {column: value}} of one group."""
        options.require_name("a process group", process_group)
        groups = self.describe_experiment(name)
        known = [group for group in groups if group]
        return groups[matching.match(process_group, known, "process group")]

    def describe_process(self, name: str, process: str, process_group: str | None = None) -> dict[str, Any]:
        """{column: value} of one process: describe_process("rl", "agent-0", "agents")["State"]."""
        statuses = {status.path: status for status in processes(self._stack(name))}
        return _columns(
            statuses[matching.match(options.path_of(process, process_group), statuses, "process")]
        )

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

        since: those of the last so many seconds, or "5m", "1h30m"; 0 for all. tail: that many of the last.

        for line in cluster.get_log("rl", "learner", follow=True): ...
        """
        lines: Iterator[LogLine] = output.logs(
            self._stack(exp),
            [options.path_of(process, process_group)],
            follow=follow,
            since=options.duration(since),
            tail=options.count(tail),
        )
        return (without_colours(line.text) for line in lines)

    def exec_command(
        self, exp: str, process: str, command: Sequence[str] | str, process_group: str | None = None
    ) -> int:
        """Run a command in a process, on the terminal or the pipes of this program; its exit code.

        A command that is one text is split at its blanks as a shell would; no shell runs it.

        cluster.exec_command("rl", "learner", ["nvidia-smi", "-L"])
        """
        words = shlex.split(command) if isinstance(command, str) else [*command]
        return execute(self._stack(exp), options.path_of(process, process_group), words, _streams())

    def login(self, exp: str, process: str, process_group: str | None = None) -> int:
        """Let the person at the terminal work in a process until they leave; the exit code."""
        return ssh.login(self._stack(exp), options.path_of(process, process_group), _streams())

    def transfer_file(self, exp: str, source: str | Path, target: str | Path) -> None:
        """Copy a file or folder: transfer_file("rl", "learner:model.pt", "."). UserError: no such file."""
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
        options.require_name("an experiment", name)
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

    def _run(self, verb: Any, target: Target, box: PlanFile, experiment: Experiment) -> inline.InlineRun:
        def program() -> None:
            plan_file.answer_in(box.file)
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
    """A Cluster of tmux on this machine; server_name tells several tmux servers of yours apart."""

    backend = "tmux"
    options_type = options.TmuxOptions

    def __init__(self, server_name: str | None = None, **given: Unpack[options.ClusterOptions]) -> None:
        super().__init__(**given)
        self._settings = {"symphony:server": server_name}

    def session(self, name: str) -> Session:
        """The libtmux.Session of an experiment; .window("agent-0") is the libtmux.Window of a process.

        cluster.session("rl").window("agent-0").active_pane.send_keys("help")

        UserError: the experiment does not run in tmux on this machine.
        """
        from symphony.operations import tmux_session

        return tmux_session.session(self._stack(name))


class KubeCluster(Cluster):
    """A Cluster of Kubernetes: the one that the current context of your kubeconfig names.

    kubeconfig: the path of another kubeconfig; context: another context of it; image: that of the processes
    that name none. The stack keeps them: kubernetes:kubeconfig, kubernetes:context, symphony:image.
    """

    backend = "kubernetes"
    options_type = options.KubeOptions

    def __init__(
        self,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        image: str | None = None,
        **given: Unpack[options.ClusterOptions],
    ) -> None:
        super().__init__(**given)
        self._settings = {
            "kubernetes:kubeconfig": options.kubeconfig_path(kubeconfig),
            "kubernetes:context": options.word("context", context),
            "symphony:image": options.word("image", image),
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


def _streams() -> Streams:
    sys.stdout.flush()
    return Streams(terminal=os.isatty(0) and os.isatty(1))


def _columns(status: ProcessStatus) -> dict[str, Any]:
    from symphony.operations.process import state

    return {
        "Group": status.group,
        "Name": status.name,
        "Ready": int(status.ready),
        "Restarts": status.restarts,
        "State": state(status),
    }
