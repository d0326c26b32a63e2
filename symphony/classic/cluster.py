"""Cluster: launch, list and delete experiments from a Python script that no Pulumi command runs."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, TypeVar, Unpack, cast, overload

import yaml

from symphony import run_request
from symphony.backends import registry
from symphony.backends.access import Streams
from symphony.backends.observe import LogLine
from symphony.classic.config import SymphonyConfig
from symphony.classic.spellings import ClassicExperimentOptions, Experiment, require_name
from symphony.cli import plan_table, screen
from symphony.cli.progress import Board
from symphony.components import run
from symphony.components.errors import usage_error
from symphony.components.experiment import Experiment as AnyExperiment
from symphony.engine import workspace
from symphony.engine.run.events import Verb
from symphony.engine.run.run import InlineRun, workspace_for
from symphony.engine.state import store
from symphony.errors import ResourceExistsError, SymphonyError, UserError
from symphony.operations import access, stacks
from symphony.operations import delete as deletion
from symphony.operations import ls as listing
from symphony.operations.plan import Planned, planned_from
from symphony.operations.process import columns, logs, processes, state
from symphony.operations.selected_stack import SelectedStack
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
    """Options of every cluster: defaults of its experiments."""

    preamble_cmds: Texts | None
    start_dir: Text | None


class TmuxOptions(ClusterOptions, total=False):
    """Options of a cluster of tmux."""

    server_name: str | None


class KubeOptions(ClusterOptions, total=False):
    """Options of a cluster of Kubernetes."""

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


def _kube_settings(options: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the options of a KubeCluster as settings of a stack, which checks their values."""
    settings = {name: _setting(name, value) for name, value in options.items()}
    return {KUBE_SETTINGS[name]: setting for name, setting in settings.items()}


def _setting(option: str, value: Any) -> str | None:
    if option == "kubeconfig":
        return _kubeconfig_path(value)
    if option == "source_ranges" and isinstance(value, (list, tuple)):
        return ", ".join(map(str, cast("Sequence[object]", value)))
    if option == "patience":
        return None if value is None else str(value)
    return _word(option, value)


def _require_text(kind: str, name: object) -> None:
    """Raise UserError if it is not text."""
    if not isinstance(name, str):
        raise usage_error(f"{name!r:.60} is not the name of {kind}", "Give its name")


def _word(option: str, text: Any) -> str | None:
    """Return a text that is not empty, or None."""
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
    """Return the number of the last lines; None for all."""
    if tail == -1:
        return None
    if tail is None or (isinstance(tail, int) and not isinstance(tail, bool) and tail >= 0):
        return tail
    remedy = "Give 0 or more, or leave it out for all lines"
    raise usage_error(f"tail={tail!r} is not a number of lines", remedy)


def _path_of(process: str, group: str | None) -> str:
    """Return `process`, or `group/process`."""
    _require_text("a process", process)
    return f"{group}/{process}" if group else process


_T = TypeVar("_T", bound=Hashable)
Described = dict[str | None, dict[str, dict[str, Any]]]


@_take_old_keywords
class Cluster:
    """One backend to launch experiments in.

    cluster = Cluster.new("tmux")
    experiment = cluster.new_experiment("rl")
    experiment.new_process("learner", command="python", args=["learner.py"])
    cluster.launch(experiment)

    preamble_cmds, start_dir: as Process; defaults of experiments that do not set them.

    A launched experiment is a Pulumi stack of its name, which `symphony` and `pulumi` can use too. Names of
    experiments, groups and processes may be abbreviated to a part; None is the current_experiment().
    UserError: no name or several names match.
    """

    backend = registry.DEFAULT
    options_type: ClassVar[type[Any]] = ClusterOptions

    def __init__(self, **keywords: Unpack[ClusterOptions]) -> None:
        known = self.options_type.__annotations__
        for option in keywords:
            if option not in ClusterOptions.__annotations__:
                raise usage_error(
                    f'a {self.backend} cluster has no option "{option}"',
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
        """Return a cluster of a backend with the options of its class: Cluster.new("tmux", start_dir="~/rl").

        backend: "tmux" for a TmuxCluster; "kubernetes", "kube", "k8s" or "gke" for a KubeCluster; or the name
        of an installed backend, for a Cluster.
        UserError: the backend or the option does not exist; the remedy lists those that do.
        """
        row = registry.named(backend if isinstance(backend, str) else repr(backend))  # pyright: ignore[reportUnnecessaryIsInstance]
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
        """Declare an experiment: cluster.new_experiment("rl", env={"SEED": 1}).

        name: letters, digits, "-" and "_". port_range: (first, last) port of its services. secrets: files.
        These and all other keywords are those of Experiment; preamble_cmds and start_dir are by default those
        of this cluster. A wrong value is a UserError at launch, with its line.
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
        """Start an experiment: cluster.launch(experiment). A terminal shows its plan and progress.

        exp:     what new_experiment() returned.
        force:   change the experiment of that name, if there is one, to this one.
        dry_run: only return the plan.

        Inside a Pulumi program it is part of the run, which starts it or only plans it, and nothing is
        returned; symphony:backend of the stack goes before this cluster.
        UserError: one of that name exists, or it cannot run (PlanError).
        SymphonyError: it is up, and some of its processes failed or do not run.
        """
        if not isinstance(exp, AnyExperiment):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise usage_error(
                f"launch() got a {type(exp).__name__}, not an experiment",
                "Launch what new_experiment() returns",
            )
        if run.in_program():
            if dry_run:
                raise usage_error(
                    "a Pulumi program cannot launch with dry_run=True", "Run `symphony plan` instead"
                )
            return run.launch(exp, self.settings)
        return _launch(exp, self.settings, force=force, dry_run=dry_run)

    def launch_batch(
        self, experiments: Iterable[AnyExperiment], force: bool = False
    ) -> list[Ended | Planned]:
        """Start several, one after the other: cluster.launch_batch([first, second]).

        experiments: of new_experiment(). force, errors: as launch(); those launched before an error stay up.
        """
        return [self.launch(experiment, force=force) for experiment in experiments]

    def delete(self, name: str, dry_run: bool = False) -> None:
        """Stop an experiment and everything it started: cluster.delete("rl").

        name: the experiment, or a part of its name. dry_run: only look for it.
        UserError: it does not exist, or several match. SymphonyError: a part of it could not be removed.
        """
        _require_text("an experiment", name)
        if run.in_program():
            raise usage_error(
                "a Pulumi program cannot call delete()", f"Run `symphony delete {name}` instead"
            )
        stack = self._stack(name)
        if not dry_run:
            for _ in deletion.delete(stack):
                pass

    def delete_batch(self, names: Iterable[str], dry_run: bool = False) -> None:
        """Stop several experiments, one after the other: cluster.delete_batch(["rl", "sweep"]).

        names, dry_run, errors: as delete(); those deleted before an error stay deleted.
        """
        for name in names:
            self.delete(name, dry_run=dry_run)

    @property
    def settings(self) -> dict[str, str]:
        """The settings that this cluster sets for a stack."""
        own = {key: value for key, value in self._settings.items() if value is not None}
        return {"symphony:backend": self.backend, **own}

    def list_experiments(self) -> list[str]:
        """Return the names of the experiments: cluster.list_experiments()."""
        with stacks.only_on(self.backend):
            return [row.name for row in listing.ls()]

    def describe_experiment(self, name: str | None = None) -> Described:
        """Return {group or None: {process: {column: value}}}: cluster.describe_experiment("rl")[None].

        The columns are Group, Name, Ready, Restarts and State.
        name: the experiment, or a part of its name; None for the current one. UserError: it does not exist.
        """
        described: Described = {}
        for status in processes(self._stack(name)):
            described.setdefault(status.group or None, {})[status.name] = columns(status)
        return described

    def describe_process_group(
        self, name: str | None, process_group: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return a group as {process: {column: value}}: cluster.describe_process_group("rl", "agents").

        name: the experiment, or a part of its name; None for the current one.
        process_group: the group; None for the processes in no group. UserError: it does not exist.
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
        """Return a process as {column: value}: cluster.describe_process("rl", "agent-0", "agents")["State"].

        name: the experiment, or a part of its name; None for the current one. process: its name.
        process_group: its group; None for any group or none.
        UserError: it does not exist, or several match.
        """
        statuses = {status.path: status for status in processes(self._stack(name))}
        return columns(statuses[stacks.match(_path_of(process, process_group), statuses, "process")])

    def find_process(self, name: str | None, process: str) -> list[str | None]:
        """Return the groups that have a process, None for no group: cluster.find_process("rl", "agent-0").

        name: the experiment, or a part of its name; None for the current one. process: its whole name.
        UserError: the experiment does not exist.
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
        """Return the output of a process as a list of lines; with follow alone an iterator.

        for line in cluster.get_log("rl", "learner", follow=True): ...

        exp, process, process_group: as describe_process(), with its errors.
        since: only lines of the last seconds, or of "5m", "1h30m"; None or 0 for all.
        tail: only the last lines; None or -1 for all. print_logs: print them as they come,
        and return the list at the end.
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
        """Run a command in a process, on the terminal or pipes of this program, and return its exit code.

        cluster.exec_command("rl", "learner", ["nvidia-smi", "-L"])

        command: runs without a shell; one text is split into words as a shell does.
        exp, process, process_group, errors: as describe_process(); UserError: the process does not run.
        """
        words = shlex.split(command) if isinstance(command, str) else [*command]
        return access.execute(self._stack(exp), _path_of(process, process_group), words, _streams())

    def login(self, exp: str | None, process: str, process_group: str | None = None) -> int:
        """Attach the terminal to a process until the user leaves it: cluster.login("rl", "learner").

        Returns the exit code. exp, process, process_group, errors: as describe_process();
        UserError: the process does not run.
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
        """Copy a file or folder: cluster.transfer_file("rl", "learner:model.pt", ".").

        exp: the experiment, or a part of its name; None for the current one.
        source, target: paths, one of them `PROCESS:PATH`, or in the process named apart by src_process (with
        src_process_group if it is in one) or dest_process (with dest_process_group).
        UserError: the experiment, the process or the file does not exist.
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
        """Return the address host:port of a service from outside: cluster.external_url("rl", "tensorboard").

        exp: the experiment, or a part of its name; None for the current one. service: its name, or a part.
        UserError: it does not exist, or can only be reached through a forwarded port.
        """
        return access.external_address(self._stack(exp), service)

    external_service = external_url

    def current_experiment(self) -> str | None:
        """Return the name of the experiment that calls without a name use, or None.

        It is that of set_experiment(), else the only one, that of the project here, or the last launched.
        """
        try:
            return self._stack(None).display_name
        except UserError:
            return None

    def set_experiment(self, name: str) -> None:
        """Set the experiment that calls without a name use: cluster.set_experiment("rl").

        name: the experiment, or a part of its name. UserError: it does not exist.
        """
        stacks.set_current(self._stack(name).name)

    def fuzzy_match_experiment(self, name: str) -> tuple[list[str], bool]:
        """Return the experiments that a name may mean, and whether one of them has the name itself.

        matches, is_exact = cluster.fuzzy_match_experiment("rl")

        name: the whole name with or without the username, its beginning, or a part.
        """
        _require_text("an experiment", name)
        return _fuzzy([self.prefix_username(name), name], self.list_experiments(), str)

    def fuzzy_match_process(
        self, process: str, name: str | None = None
    ) -> tuple[list[tuple[str | None, str]], bool]:
        """Return the processes (group or None, name) that a name may mean, and whether one has that name.

        matches, is_exact = cluster.fuzzy_match_process("agent", "rl")

        process: its name or a part. name: the experiment, or a part of its name; None for the current one.
        """
        _require_text("a process", process)
        groups = self.describe_experiment(name)
        known = [(group, member) for group, members in groups.items() for member in members]
        return _fuzzy([process], known, lambda candidate: candidate[1])

    def prefix_username(self, name: str) -> str:
        """Return the name with the username of SymphonyConfig before it: cluster.prefix_username("rl")."""
        return SymphonyConfig().prefixed(name)

    def _stack(self, name: str | None) -> stacks.Stack:
        """Return a stack of this backend; without a name the current one. UserError: it does not exist."""
        if name is not None:
            _require_text("an experiment", name)
            prefixed = self.prefix_username(name)
            known = {stack.stack for stack in store.names()}
            name = prefixed if prefixed in known else name
        with stacks.only_on(self.backend):
            return stacks.find(name)


class TmuxCluster(Cluster):
    """A Cluster of tmux on this machine.

    TmuxCluster("mine", preamble_cmds=["source venv/bin/activate"])

    server_name: the name of the tmux server; "default" by default.
    preamble_cmds, start_dir: as Cluster. UserError: an option does not exist.
    """

    backend = "tmux"
    options_type = TmuxOptions

    def __init__(self, server_name: str | None = None, **keywords: Unpack[ClusterOptions]) -> None:
        super().__init__(**keywords)
        self._settings = {"symphony:server": server_name}

    def session(self, name: str) -> Session:
        """Return the libtmux.Session of an experiment; .window("agent-0") is the libtmux.Window of a process.

        cluster.session("rl").window("agent-0").active_pane.send_keys("help")

        name: the experiment, or a part of its name. UserError: it does not run in tmux on this machine.
        """
        from symphony.operations import tmux_session

        return tmux_session.session(self._stack(name))


class KubeCluster(Cluster):
    """A Cluster of Kubernetes.

    KubeCluster(kubeconfig="~/.kube/config", context="my-cluster", image="me/rl:1")

    kubeconfig:    the path of a kubeconfig; by default that of kubectl.
    context:       a context of it; by default the current one.
    image:         the image of processes that set none.
    namespace:     the namespace; by default the name of the experiment.
    pod_security:  the Pod Security level of the namespace: "baseline", "restricted" or "privileged".
    expose:        the type of the exposed Services: "ClusterIP", "NodePort" or "LoadBalancer".
    source_ranges: the addresses that may reach a LoadBalancer, such as "203.0.113.0/24".
    patience:      the seconds to wait for conditions that may pass, such as a node that is still starting.

    preamble_cmds, start_dir: as Cluster. UserError: an option does not exist, or its value is wrong.

    They become settings of the stack, which `symphony config` lists.
    """

    backend = "kubernetes"
    options_type = KubeOptions

    def __init__(self, **keywords: Unpack[KubeOptions]) -> None:
        own = {key: value for key, value in keywords.items() if key in KUBE_SETTINGS}
        super().__init__(**{key: value for key, value in keywords.items() if key not in own})  # pyright: ignore[reportArgumentType]
        self._settings = _kube_settings(own)


def _fuzzy(words: Sequence[str], known: Iterable[_T], name: Callable[[_T], str]) -> tuple[list[_T], bool]:
    """Return the candidates for some words, the most likely first, and whether one has exactly that name."""
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
    """Start an experiment, or only plan it, and show the progress at a terminal.

    Args:
        exp: The experiment.
        settings: The settings of the cluster.
        force: Change the experiment of that name, if it is up, and replace a saved one.
        dry_run: Only return the plan.

    Raises:
        ResourceExistsError: It is up, or was saved before.
        SymphonyError: Some processes do not run.
    """
    name = as_stack(exp.name)
    project = workspace_for(name)
    selected = SelectedStack(workspace.stack_name(name, project), project, settings)
    folder = _refuse_existing(selected, force or dry_run)
    if dry_run:
        planned = planned_from(selected, partial(_inline_run, "preview", exp), manifests=True)
        assert isinstance(planned, Planned), "a script launches experiments"
        if screen.is_terminal():
            plan_table.show(planned)
        return planned
    events = up(selected, partial(_inline_run, "up", exp))
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
        raise _troubled(ended)
    return ended


def _shown(events: Iterator[UpEvent]) -> Iterator[UpEvent]:
    with Board() as board:
        for event in events:
            board.show(event, plan_table.show)
            yield event


def _refuse_existing(selected: SelectedStack, force: bool) -> Path | None:
    """Return the folder in which to save an experiment; raise ResourceExistsError if it is up or saved."""
    is_known = store.exists(selected.name)
    before = stacks.read(selected.name) if is_known else None
    if before is not None and before.recorded is not None and not force and not _is_lost(before):
        raise ResourceExistsError(
            f"experiment {selected.name.stack} exists",
            remedy="Delete the experiment first, or launch with force=True",
        )
    home = SymphonyConfig().experiment_folder
    folder = Path(home).expanduser() / selected.name.stack if home is not None else None
    # A deleted experiment may be launched again.
    if folder is not None and folder.exists() and not is_known and not force:
        raise ResourceExistsError(
            f"experiment {selected.name.stack} was saved before",
            where=str(folder),
            remedy="Give it another name, or replace the saved one with force=True",
        )
    return folder


def _is_lost(stack: stacks.Stack) -> bool:
    """Return whether all processes of an experiment are lost, as after `tmux kill-session`."""
    return all(status.state == "lost" for status in processes(stack))


def _inline_run(
    verb: Verb,
    experiment: AnyExperiment,
    selected: SelectedStack,
    request: RunRequest,
    *,
    fetch_plugins: bool,
    extra: Mapping[str, str] | None = None,
) -> InlineRun:
    def program() -> None:
        run_request.use(request)
        run.launch(experiment, selected.overrides)

    return InlineRun(
        verb,
        selected.workspace,
        selected.name.stack,
        program=program,
        extra=extra,
        options=_engine_options(selected),
        fetch_plugins=fetch_plugins,
    )


def _engine_options(selected: SelectedStack) -> Sequence[str]:
    """Return the engine options that keep the settings of the cluster with the stack, for `symphony`."""
    before = {"symphony:backend": registry.DEFAULT, "symphony:server": "default", **selected.config}
    return [
        f"--config={key}={value}" for key, value in selected.overrides.items() if before.get(key) != value
    ]


def _troubled(ended: Ended) -> SymphonyError:
    """Return the error for processes that do not run after the launch."""
    first, *_ = ended.troubled
    return SymphonyError(
        f"{len(ended.troubled)} of {len(ended.statuses)} processes of {ended.stack} are not running",
        remedy=f"`symphony why {ended.stack} {first.path}` explains it",
        details=tuple(f"  {status.path}   {state(status)}" for status in ended.troubled),
    )
