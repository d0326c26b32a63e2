"""Cluster: launch, list and delete experiments from a Python script that no Pulumi command runs."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, TypeVar, Unpack, cast, overload

import yaml

from symphony import files, run_request
from symphony.backends import registry
from symphony.backends.access import Streams
from symphony.backends.observe import LogLine
from symphony.classic.config import SymphonyConfig
from symphony.classic.spellings import ClassicExperimentOptions, Experiment, require_name
from symphony.cli import plan_table, screen
from symphony.cli.progress import Board
from symphony.components import program_run
from symphony.components.experiment import Experiment as AnyExperiment
from symphony.components.usage_errors import usage_error
from symphony.engine import workspace
from symphony.engine.run.run import workspace_for
from symphony.engine.state import store
from symphony.errors import ResourceExistsError, SymphonyError, UserError
from symphony.operations import access, stacks
from symphony.operations import delete as deletion
from symphony.operations import ls as listing
from symphony.operations.plan import Planned, plan_of
from symphony.operations.process import columns, logs, processes, state
from symphony.operations.selected_stack import SelectedStack, guard_settings_file
from symphony.operations.up import Ended, UpEvent, up
from symphony.plan.names import as_stack, is_same
from symphony.run_request import RunRequest
from symphony.spec.shared import Text, Texts

if TYPE_CHECKING:
    from symphony.operations.tmux_session import Session


_Kind = TypeVar("_Kind")
Tmux = Literal["tmux"]
Kubernetes = Literal["kubernetes", "kube", "k8s", "gke"]


class ClusterOptions(TypedDict, total=False):
    """Keywords of every cluster: the defaults of its experiments."""

    preamble_cmds: Texts | None
    start_dir: Text | None


class TmuxOptions(ClusterOptions, total=False):
    """Keywords of a TmuxCluster."""

    server_name: str | None


class KubeOptions(ClusterOptions, total=False):
    """Keywords of a KubeCluster."""

    kubeconfig: str | Path | None
    context: str | None
    image: str | None
    namespace: str | None
    pod_security: Literal["baseline", "restricted", "privileged"] | None
    expose: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None
    source_ranges: str | Sequence[str] | None
    patience: float | None


KUBE_SETTINGS = {
    "kubeconfig": "kubernetes:kubeconfig",
    "context": "kubernetes:context",
    "image": "symphony:image",
    "namespace": "symphony:namespace",
    "pod_security": "symphony:podSecurity",
    "expose": "symphony:expose",
    "source_ranges": "symphony:sourceRanges",
    "patience": "symphony:patience",
}
# An experiment stays in its cluster, whatever the next launch names.
_OPTION_SETTINGS = frozenset(
    {*KUBE_SETTINGS.values(), "symphony:server"} - {"kubernetes:kubeconfig", "kubernetes:context"}
)
# The original Symphony's names of parameters; `verbose` does nothing here: a terminal shows the progress.
_OLD_KEYWORDS = {
    "experiment_name": ("name", "exp"),
    "experiment_names": ("names",),
    "experiment_config": ("exp",),
    "experiment_configs": ("experiments",),
    "process_name": ("process",),
    "process_group_name": ("process_group",),
    "service_name": ("service",),
    "src": ("source",),
    "src_path": ("source",),
    "dest": ("target",),
    "dest_path": ("target",),
    "verbose": (),
}


def _take_old_keywords(kind: type[_Kind]) -> type[_Kind]:
    """Return a class whose methods also take the parameter names of the original."""
    for name, method in vars(kind).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _taking_old_keywords(method))
    return kind


def _taking_old_keywords(method: Callable[..., Any]) -> Callable[..., Any]:
    own = tuple(inspect.signature(method).parameters)

    @wraps(method)
    def call(*words: Any, **keywords: Any) -> Any:
        for old in [key for key in keywords if key in _OLD_KEYWORDS and key not in own]:
            argument = keywords.pop(old)
            keywords.update((new, argument) for new in _OLD_KEYWORDS[old] if new in own)
        return method(*words, **keywords)

    return call


def _setting(option: str, value: Any) -> str | None:
    """Return an option of a KubeCluster as a setting of a stack, which checks its value."""
    if option == "kubeconfig":
        return _kubeconfig_path(value)
    if option == "source_ranges" and isinstance(value, (list, tuple)):
        return ", ".join(map(str, cast("Sequence[object]", value)))
    if option == "patience":
        return None if value is None else str(value)
    return _word(option, value)


def _require_text(kind: str, name: object) -> None:
    if not isinstance(name, str):
        raise usage_error(f"{name!r:.60} is not the name of {kind}", f"Give the name of {kind}")


def _word(option: str, text: Any) -> str | None:
    if text is None or (isinstance(text, str) and text.strip()):
        return text
    raise usage_error(f"{option}={text!r}: must be a non-empty string", "Give a name, or leave it out")


def _kubeconfig_path(path: object) -> str | None:
    """Return the absolute path. The content of a kubeconfig is refused: the settings would show it."""
    text = _word("kubeconfig", str(path) if isinstance(path, Path) else path)
    if text is None:
        return None
    if "\n" in text or text.lstrip().startswith("{"):
        raise usage_error(
            "kubeconfig= is the content of a kubeconfig", "Write it to a file and give its path"
        )
    return str(Path(text).expanduser().absolute())


def _duration(since: object) -> str | None:
    """Return the maximum age of log lines; 0 stands for all lines, as for kubectl and the original."""
    if since is None or (isinstance(since, (int, float)) and not isinstance(since, bool)):
        return f"{since:.3f}" if since else None
    if isinstance(since, str):
        return None if since == "0" else since
    raise usage_error(f"since={since!r} is not a duration", "Write seconds, or 90s, 5m, 1h30m, 2d")


def _count(tail: object) -> int | None:
    if tail == -1:
        return None
    if tail is None or (isinstance(tail, int) and not isinstance(tail, bool) and tail >= 0):
        return tail
    remedy = "Give 0 or more, or leave it out for all lines"
    raise usage_error(f"tail={tail!r} is not a number of lines", remedy)


def _path_of(process: str, group: str | None) -> str:
    _require_text("a process", process)
    return f"{group}/{process}" if group else process


_T = TypeVar("_T", bound=Hashable)
Described = dict[str | None, dict[str, dict[str, Any]]]


@_take_old_keywords
class Cluster:
    """A backend on which a Python script launches, lists and deletes experiments.

    A launched experiment is a Pulumi stack with its name, which the commands `symphony` and `pulumi` can use
    too. For the name of an experiment, group or process, a part that matches only one is enough; None stands
    for the current experiment, see current_experiment().

    Args:
        preamble_cmds: Shell lines that run before each process, for experiments that set none.
        start_dir: The working directory of the processes, for experiments that set none.

    Raises:
        UserError: An option does not exist.

    Example:
        cluster = Cluster.new("tmux")
        experiment = cluster.new_experiment("rl")
        experiment.new_process("learner", command="python", args=["learner.py"])
        cluster.launch(experiment)
    """

    backend = registry.DEFAULT
    options_type: ClassVar[type[Any]] = ClusterOptions

    def __init__(self, **keywords: Unpack[ClusterOptions]) -> None:
        known = self.options_type.__annotations__
        for option in keywords:
            if option not in ClusterOptions.__annotations__:
                raise usage_error(
                    f'{type(self).__name__} has no option "{option}"',
                    f"The options are: {', '.join(known)}",
                )
        self._defaults: dict[str, Any] = {key: value for key, value in keywords.items() if value is not None}
        self._settings: dict[str, str | None] = {}

    @overload
    @staticmethod
    def new(backend: Tmux = "tmux", **keywords: Unpack[TmuxOptions]) -> TmuxCluster: ...
    @overload
    @staticmethod
    def new(backend: Kubernetes, **keywords: Unpack[KubeOptions]) -> KubeCluster: ...
    @overload
    @staticmethod
    def new(backend: str, **keywords: Unpack[ClusterOptions]) -> Cluster: ...
    @staticmethod
    def new(backend: str = registry.DEFAULT, **keywords: Any) -> Cluster:
        """Return a cluster of a backend.

        Args:
            backend: "tmux" for a TmuxCluster; "kubernetes", "kube", "k8s" or "gke" for a KubeCluster; the
                name of another installed backend for a Cluster.
            keywords: The options of that class, such as start_dir.

        Raises:
            UserError: The backend or an option does not exist; the remedy lists those that do.

        Example:
            Cluster.new("tmux", start_dir="~/rl")
        """
        row = registry.get_by_name_or_alias(backend if isinstance(backend, str) else repr(backend))  # pyright: ignore[reportUnnecessaryIsInstance]
        cluster = row.cluster_class(**keywords)
        cluster.backend = row.name
        return cluster

    @overload
    def new_experiment(self, name: str, **keywords: Unpack[ClassicExperimentOptions]) -> Experiment: ...
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
        **keywords: Any,
    ) -> Experiment:
        """Declare an experiment; Experiment explains all keywords.

        Args:
            name: Letters, digits, "-" and "_".
            port_range: The first and the last port for services (tmux and Slurm).
            secrets: Files that appear in the folder $SYMPH_SECRETS_DIR of every process.
            preamble_cmds: Shell lines that run before each process; by default those of the cluster.
            start_dir: The working directory of the processes; by default that of the cluster.
            keywords: The other keywords of Experiment.

        Raises:
            UserError: The name is not valid, a value has a wrong type, or a keyword is unknown.

        Example:
            cluster.new_experiment("rl", env={"SEED": 1})
        """
        keywords.update(
            port_range=port_range, secrets=secrets, preamble_cmds=preamble_cmds, start_dir=start_dir
        )
        require_name("an experiment", name)
        settings = {key: value for key, value in keywords.items() if value is not None}
        return Experiment(SymphonyConfig().prefixed(name), **{**self._defaults, **settings})

    @overload
    def launch(self, exp: AnyExperiment, force: bool = False, dry_run: Literal[False] = False) -> Ended: ...
    @overload
    def launch(self, exp: AnyExperiment, force: bool = False, *, dry_run: Literal[True]) -> Planned: ...
    @overload
    def launch(self, exp: AnyExperiment, force: bool = False, dry_run: bool = False) -> Ended | Planned: ...
    def launch(self, exp: AnyExperiment, force: bool = False, dry_run: bool = False) -> Any:
        """Start an experiment; a terminal shows its plan and progress.

        In a Pulumi program the experiment becomes part of the run, which starts it or only plans it. Then
        launch() returns None, and the settings of the stack, such as symphony:backend, override those of this
        cluster.

        Args:
            exp: The experiment, as new_experiment() returned it.
            force: Change an experiment of that name that is up, and overwrite one that was saved in the
                folder that SymphonyConfig names.
            dry_run: Only return the plan.

        Returns:
            The end of the launch, with the status of each process; with dry_run, the plan and its changes.

        Raises:
            ResourceExistsError: An experiment of that name is up or was saved; force and dry_run allow it.
            PlanError: The experiment cannot run.
            UserError: The argument is not an experiment, or dry_run is set in a Pulumi program.
            SymphonyError: The run of Pulumi failed, or some processes of the launched experiment do not run.

        Example:
            cluster.launch(experiment)
        """
        if not isinstance(exp, AnyExperiment):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise usage_error(
                f"launch() got a {type(exp).__name__}, not an experiment",
                "Launch what new_experiment() returns",
            )
        if program_run.in_program():
            if dry_run:
                raise usage_error(
                    "a Pulumi program cannot launch with dry_run=True", "Run `symphony plan` instead"
                )
            return program_run.launch(exp, self.settings)
        return _launch(exp, self.settings, force=force, dry_run=dry_run)

    def launch_batch(
        self, experiments: Iterable[AnyExperiment], force: bool = False
    ) -> list[Ended | Planned]:
        """Start several experiments, one after the other.

        Args:
            experiments: The experiments, as new_experiment() returned them.
            force: Change experiments of these names that are up, and replace those that were saved.

        Returns:
            The result of launch() for each experiment.

        Raises:
            SymphonyError: launch() raises it; experiments that were launched before stay up.

        Example:
            cluster.launch_batch([first, second])
        """
        return [self.launch(experiment, force=force) for experiment in experiments]

    def delete(self, name: str, dry_run: bool = False) -> None:
        """Stop an experiment and everything that it started.

        Args:
            name: The name of the experiment, or a part of it.
            dry_run: Only check that the experiment exists.

        Raises:
            UserError: The experiment does not exist, several match, or a Pulumi program calls this method.
            SymphonyError: A part of the experiment could not be removed.

        Example:
            cluster.delete("rl")
        """
        _require_text("an experiment", name)
        if program_run.in_program():
            raise usage_error(
                "a Pulumi program cannot call delete()", f"Run `symphony delete {name}` instead"
            )
        stack = self._stack(name)
        if not dry_run:
            for _ in deletion.delete(stack):
                pass

    def delete_batch(self, names: Iterable[str], dry_run: bool = False) -> None:
        """Stop several experiments, one after the other.

        Args:
            names: The names of the experiments, or parts of them.
            dry_run: Only check that the experiments exist.

        Raises:
            SymphonyError: delete() raises it; experiments that were deleted before stay deleted.

        Example:
            cluster.delete_batch(["rl", "sweep"])
        """
        for name in names:
            self.delete(name, dry_run=dry_run)

    @property
    def settings(self) -> dict[str, str]:
        """The settings that this cluster sets for a stack."""
        own = {key: value for key, value in self._settings.items() if value is not None}
        return {"symphony:backend": self.backend, **own}

    def list_experiments(self) -> list[str]:
        """Return the names of the experiments of this backend."""
        with stacks.only_on(self.backend):
            return [row.name for row in listing.ls() if row.kind == "experiment"]

    def describe_experiment(self, name: str | None = None) -> Described:
        """Return the states of all processes of an experiment.

        Args:
            name: The name of the experiment, or a part of it; None for the current one.

        Returns:
            {group or None: {process: {column: value}}}, with the columns Group, Name, Ready, Restarts, State.

        Raises:
            UserError: The experiment does not exist or is not up, or several match.
            SymphonyError: The backend does not answer.

        Example:
            cluster.describe_experiment("rl")[None]
        """
        described: Described = {}
        for status in processes(self._stack(name)):
            described.setdefault(status.group or None, {})[status.name] = columns(status)
        return described

    def describe_process_group(
        self, name: str | None, process_group: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return the states of the processes of a group.

        Args:
            name: The name of the experiment, or a part of it; None for the current one.
            process_group: The name of the group, or a part of it; None for the processes without a group.

        Returns:
            {process: {column: value}}, with the columns of describe_experiment().

        Raises:
            UserError: The experiment or group does not exist, several match, or the experiment is not up.
            SymphonyError: The backend does not answer.

        Example:
            cluster.describe_process_group("rl", "agents")
        """
        groups = self.describe_experiment(name)
        if process_group is None:
            return groups.get(None, {})
        _require_text("a process group", process_group)
        known = [group for group in groups if group]
        return groups[stacks.match(process_group, known, "process group")]

    def describe_process(
        self, name: str | None, process: str, process_group: str | None = None
    ) -> dict[str, Any]:
        """Return the state of a process.

        Args:
            name: The name of the experiment, or a part of it; None for the current one.
            process: The name of the process, or a part of it.
            process_group: The group of the process; None searches all groups and the processes without one.

        Returns:
            {column: value}, with the columns of describe_experiment().

        Raises:
            UserError: The experiment or process does not exist, several match, or the experiment is not up.
            SymphonyError: The backend does not answer.

        Example:
            cluster.describe_process("rl", "agent-0", "agents")["State"]
        """
        statuses = {status.path: status for status in processes(self._stack(name))}
        return columns(statuses[stacks.match(_path_of(process, process_group), statuses, "process")])

    def find_process(self, name: str | None, process: str) -> list[str | None]:
        """Return the groups that have a process with this name.

        Args:
            name: The name of the experiment, or a part of it; None for the current one.
            process: The full name of the process.

        Returns:
            The names of the groups; None stands for the processes without a group.

        Raises:
            UserError: The experiment does not exist or is not up, or several match.
            SymphonyError: The backend does not answer.

        Example:
            cluster.find_process("rl", "agent-0")
        """
        return [group for group, members in self.describe_experiment(name).items() if process in members]

    @overload
    def get_log(
        self,
        exp: str | None,
        process: str,
        process_group: str | None = None,
        follow: Literal[False] = False,
        since: str | float | None = None,
        tail: int | None = None,
        print_logs: bool = False,
    ) -> list[str]: ...
    @overload
    def get_log(
        self,
        exp: str | None,
        process: str,
        process_group: str | None = None,
        *,
        follow: Literal[True],
        since: str | float | None = None,
        tail: int | None = None,
        print_logs: bool = False,
    ) -> Iterable[str]: ...
    def get_log(
        self,
        exp: str | None,
        process: str,
        process_group: str | None = None,
        follow: bool = False,
        since: str | float | None = None,
        tail: int | None = None,
        print_logs: bool = False,
    ) -> Iterable[str]:
        """Return the output of a process.

        Args:
            exp: The name of the experiment, or a part of it; None for the current one.
            process: The name of the process, or a part of it.
            process_group: The group of the process; None searches all groups and the processes without one.
            follow: Continue with new output while the process runs.
            since: The maximum age of the lines, in seconds or as "5m" or "1h30m"; None or 0 for all lines.
            tail: The number of last lines to return; None or -1 for all lines.
            print_logs: Print each line as it comes, and return all at the end.

        Returns:
            A list of lines; with follow and without print_logs, an iterator over them.

        Raises:
            UserError: The experiment or process does not exist, several match, or the experiment is not up;
                or since or tail is not valid.
            SymphonyError: The backend does not answer.

        Example:
            for line in cluster.get_log("rl", "learner", follow=True):
                print(line)
        """
        lines: Iterator[LogLine] = logs(
            self._stack(exp),
            [_path_of(process, process_group)],
            follow=follow,
            since=_duration(since),
            tail=_count(tail),
        )
        texts = (screen.without_colours(line.text) for line in lines)
        if print_logs:
            printed: list[str] = []
            for text in texts:
                screen.tell(text)
                printed.append(text)
            return printed
        return texts if follow else list(texts)

    def exec_command(
        self, exp: str | None, process: str, command: Sequence[str] | str, process_group: str | None = None
    ) -> int:
        """Run a command in a process, on the terminal or pipes of this program.

        Args:
            exp: The name of the experiment, or a part of it; None for the current one.
            process: The name of the process, or a part of it.
            command: The program and its arguments, run without a shell; a string is split into words.
            process_group: The group of the process; None searches all groups and the processes without one.

        Returns:
            The exit code of the command.

        Raises:
            UserError: The experiment or process does not exist, several match, or the experiment is not up.
            SymphonyError: The process does not run, or the command does not exist or cannot be run.

        Example:
            cluster.exec_command("rl", "learner", ["nvidia-smi", "-L"])
        """
        words = shlex.split(command) if isinstance(command, str) else [*command]
        return access.execute(self._stack(exp), _path_of(process, process_group), words, _streams())

    def login(self, exp: str | None, process: str, process_group: str | None = None) -> int:
        """Attach the terminal to a process until the user leaves it.

        Args:
            exp: The name of the experiment, or a part of it; None for the current one.
            process: The name of the process, or a part of it.
            process_group: The group of the process; None searches all groups and the processes without one.

        Returns:
            The exit code.

        Raises:
            UserError: The experiment or process does not exist, several match, or the experiment is not up;
                or there is no terminal.
            SymphonyError: The process does not run, or its window was closed.

        Example:
            cluster.login("rl", "learner")
        """
        return access.login(self._stack(exp), _path_of(process, process_group), _streams())

    def transfer_file(
        self,
        exp: str | None,
        source: str | Path,
        target: str | Path,
        src_process: str | None = None,
        src_process_group: str | None = None,
        dest_process: str | None = None,
        dest_process_group: str | None = None,
    ) -> None:
        """Copy a file or folder between a process and this machine.

        Args:
            exp: The name of the experiment, or a part of it; None for the current one.
            source: The path to copy from, as PROCESS:PATH for a path in a process.
            target: The path to copy to, as PROCESS:PATH for a path in a process.
            src_process: The process of source, which is then a path alone; ignored if dest_process is given.
            src_process_group: The group of src_process, if it is in one.
            dest_process: The process of target, which is then a path alone.
            dest_process_group: The group of dest_process, if it is in one.

        Raises:
            UserError: The experiment, process or file does not exist; neither or both paths are in a process.

        Example:
            cluster.transfer_file("rl", "learner:model.pt", ".")
        """
        source, target = str(source), str(target)
        if dest_process is not None:
            path = _path_of(dest_process, dest_process_group)
            sides = access.Sides(path, target, source, sends=True)
        elif src_process is not None:
            path = _path_of(src_process, src_process_group)
            sides = access.Sides(path, source, target, sends=False)
        else:
            sides = access.parse_sides(source, target)
        access.copy(self._stack(exp), sides)

    def external_url(self, exp: str | None, service: str) -> str:
        """Return the address host:port at which users reach a service.

        Args:
            exp: The name of the experiment, or a part of it; None for the current one.
            service: The name of the service, or a part of it.

        Raises:
            UserError: The experiment or service does not exist, several match, or the service can only be
                reached through a forwarded port.

        Example:
            cluster.external_url("rl", "tensorboard")
        """
        return access.external_address(self._stack(exp), service)

    external_service = external_url

    def current_experiment(self) -> str | None:
        """Return the name of the experiment that methods use if they get no name, or None.

        That is the only experiment, or the only one of the project in the working directory. If there are
        several, it is the one that was selected by set_experiment() or launched last.
        """
        try:
            return self._stack(None).display_name
        except UserError:
            return None

    def set_experiment(self, name: str) -> None:
        """Select the experiment that methods use if they get no name.

        Args:
            name: The name of the experiment, or a part of it.

        Raises:
            UserError: The experiment does not exist, or several match.

        Example:
            cluster.set_experiment("rl")
        """
        stacks.set_current(self._stack(name).name)

    def fuzzy_match_experiment(self, name: str) -> tuple[list[str], bool]:
        """Return the experiments that a name may mean.

        Args:
            name: The name of an experiment, with or without the username, or a part of it.

        Returns:
            The names of the experiments, the most likely first, and whether one has that name, in any
            spelling that Kubernetes maps to it.

        Example:
            names, is_exact = cluster.fuzzy_match_experiment("rl")
        """
        _require_text("an experiment", name)
        return _fuzzy([self.prefix_username(name), name], self.list_experiments(), str)

    def fuzzy_match_process(
        self, process: str, name: str | None = None
    ) -> tuple[list[tuple[str | None, str]], bool]:
        """Return the processes that a name may mean.

        Args:
            process: The name of a process, or a part of it.
            name: The name of the experiment, or a part of it; None for the current one.

        Returns:
            The group (or None) and the name of each process, the most likely first, and whether one has
            that name, in any spelling that Kubernetes maps to it.

        Raises:
            UserError: The experiment does not exist or is not up, or several match.
            SymphonyError: The backend does not answer.

        Example:
            processes, is_exact = cluster.fuzzy_match_process("agent", "rl")
        """
        _require_text("a process", process)
        groups = self.describe_experiment(name)
        known = [(group, member) for group, members in groups.items() for member in members]
        return _fuzzy([process], known, lambda candidate: candidate[1])

    def prefix_username(self, name: str) -> str:
        """Return the name of an experiment with the username of SymphonyConfig as prefix.

        Args:
            name: The name; it is returned unchanged if it has that prefix.

        Example:
            cluster.prefix_username("rl")
        """
        return SymphonyConfig().prefixed(name)

    def _stack(self, name: str | None) -> stacks.Stack:
        """Return the stack of an experiment of this backend; None stands for the current experiment."""
        if name is not None:
            _require_text("an experiment", name)
            prefixed = self.prefix_username(name)
            known = {stack.stack for stack in store.names()}
            name = prefixed if prefixed in known else name
        with stacks.only_on(self.backend):
            return stacks.find(name)


class TmuxCluster(Cluster):
    """A Cluster that starts processes in tmux on this machine.

    Args:
        server_name: The name of the tmux server; "default" by default.
        preamble_cmds: Shell lines that run before each process, for experiments that set none.
        start_dir: The working directory of the processes, for experiments that set none.

    Raises:
        UserError: An option does not exist.

    Example:
        TmuxCluster("mine", preamble_cmds=["source venv/bin/activate"])
    """

    backend = "tmux"
    options_type = TmuxOptions

    def __init__(self, server_name: str | None = None, **keywords: Unpack[ClusterOptions]) -> None:
        super().__init__(**keywords)
        self._settings = {"symphony:server": server_name}

    def session(self, name: str) -> Session:
        """Return the libtmux.Session of an experiment.

        Its method window() returns the libtmux.Window of a process.

        Args:
            name: The name of the experiment, or a part of it.

        Raises:
            UserError: The experiment does not exist, several match, or it does not run in tmux here.

        Example:
            cluster.session("rl").window("agent-0").panes[0].send_keys("help")
        """
        from symphony.operations import tmux_session

        return tmux_session.session(self._stack(name))


class KubeCluster(Cluster):
    """A Cluster that starts processes in Kubernetes.

    The options become settings of the stack, which `symphony config` lists.

    Args:
        kubeconfig: The path of a kubeconfig; by default that of kubectl.
        context: A context of the kubeconfig; by default the current one.
        image: The image of processes that set none.
        namespace: The namespace; by default the name of the experiment.
        pod_security: The Pod Security level of the namespace: "baseline", "restricted" or "privileged".
        expose: The type of the exposed Services: "ClusterIP", "NodePort" or "LoadBalancer".
        source_ranges: The addresses that may reach a LoadBalancer, such as "203.0.113.0/24".
        patience: The seconds that a launch waits for processes that do not become ready.
        preamble_cmds: Shell lines that run before each process, for experiments that set none.
        start_dir: The working directory of the processes, for experiments that set none.

    Raises:
        UserError: An option does not exist, or a value is not valid.

    Example:
        KubeCluster(kubeconfig="~/.kube/config", context="my-cluster", image="me/rl:1")
    """

    backend = "kubernetes"
    options_type = KubeOptions

    def __init__(self, **keywords: Unpack[KubeOptions]) -> None:
        own = {key: value for key, value in keywords.items() if key in KUBE_SETTINGS}
        super().__init__(**{key: value for key, value in keywords.items() if key not in own})  # pyright: ignore[reportArgumentType]
        self._settings = {KUBE_SETTINGS[name]: _setting(name, value) for name, value in own.items()}


def _fuzzy(words: Sequence[str], known: Iterable[_T], name: Callable[[_T], str]) -> tuple[list[_T], bool]:
    """Return the candidates for some words, the most likely first.

    Return also whether a candidate has one of these names, in any spelling that Kubernetes maps to it.
    """
    candidates = sorted(known, key=lambda candidate: (name(candidate), str(candidate)))
    for is_equal in (str.__eq__, is_same):
        for word in words:
            if exact := [candidate for candidate in candidates if is_equal(name(candidate), word)]:
                return exact, True
    prefixed = [candidate for word in words for candidate in candidates if name(candidate).startswith(word)]
    containing = [candidate for candidate in candidates if words[-1] in name(candidate)]
    return list(dict.fromkeys([*prefixed, *containing])), False


def _streams() -> Streams:
    sys.stdout.flush()
    return Streams(terminal=os.isatty(0) and os.isatty(1))


def _launch(
    exp: AnyExperiment, settings: Mapping[str, str], *, force: bool, dry_run: bool
) -> Ended | Planned:
    """Start an experiment with the settings of a cluster, or only plan it; a terminal shows the progress."""
    name = as_stack(exp.name)
    project = workspace_for(name)
    selected = SelectedStack(workspace.stack_name(name, project), project, settings)
    folder = _refuse_existing(selected, force or dry_run)

    def program(request: RunRequest) -> None:
        run_request.use(request)
        program_run.launch(exp, settings)

    with guard_settings_file(selected, dry_run=dry_run):
        _drop_former_options(selected)
        if dry_run:
            planned = plan_of(selected, program=program, manifests=True)
            assert isinstance(planned, Planned), "a script launches experiments"
            if screen.is_terminal():
                plan_table.show(planned)
            return planned
        events = up(selected, program=program)
        *_, ended = _shown(events) if screen.is_terminal() else events
    if not isinstance(ended, Ended):
        raise SymphonyError(
            f"Pulumi ended before {exp.name} was up", remedy=f"`symphony up {exp.name}` shows why"
        )
    stacks.set_current(selected.name)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "experiment.yaml").write_text(yaml.safe_dump(exp.to_dict(), sort_keys=False))
    if ended.troubled:
        raise _not_running_error(ended)
    return ended


def _drop_former_options(selected: SelectedStack) -> None:
    """Remove the options of earlier launches from the hidden settings file, which the engine only adds to."""
    if selected.workspace.hidden and selected.config_file.is_file():
        content: dict[str, Any] = workspace.load_yaml(selected.config_file.read_text()) or {}
        stored: dict[str, Any] = content.get("config") or {}
        former = _OPTION_SETTINGS - selected.overrides.keys()
        config = {key: value for key, value in stored.items() if key not in former}
        files.replace(selected.config_file, workspace.dump_yaml({**content, "config": config}).encode())


def _shown(events: Iterator[UpEvent]) -> Iterator[UpEvent]:
    with Board() as board:
        for event in events:
            board.show(event, plan_table.show)
            yield event


def _refuse_existing(selected: SelectedStack, force: bool) -> Path | None:
    """Return the folder in which to save an experiment; raise ResourceExistsError if it is up or saved."""
    is_known = store.exists(selected.name)
    before = stacks.read(selected.name)
    is_up = before.recorded is not None and not force
    # After `tmux kill-session`, all processes are lost.
    if is_up and any(status.state != "lost" for status in processes(before)):
        raise ResourceExistsError(
            f"experiment {selected.name.stack} exists",
            remedy="Delete the experiment first, or launch with force=True",
        )
    home = SymphonyConfig().experiment_folder
    folder = Path(home).expanduser() / selected.name.stack if home is not None else None
    # The stack of a deleted experiment stays in the store: that experiment may be launched again.
    if folder is not None and folder.exists() and not is_known and not force:
        raise ResourceExistsError(
            f"experiment {selected.name.stack} was saved before",
            where=str(folder),
            remedy="Give it another name, or replace the saved one with force=True",
        )
    return folder


def _not_running_error(ended: Ended) -> SymphonyError:
    first, *_ = ended.troubled
    return SymphonyError(
        f"{len(ended.troubled)} of {len(ended.statuses)} processes of {ended.stack} are not running",
        remedy=f"`symphony why {ended.stack} {first.path}` explains it",
        details=tuple(f"  {status.path}   {state(status)}" for status in ended.troubled),
    )
