"""Cluster: launch, list and delete experiments from a plain Python script, outside any Pulumi program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, overload

from symphony.backends import registry
from symphony.classic import launch as launching
from symphony.classic import options
from symphony.classic.config import SymphonyConfig
from symphony.classic.declaration import ClassicExperimentOptions, Experiment, require_name
from symphony.classic.experiments import Experiments
from symphony.components import run
from symphony.components.errors import usage_error
from symphony.components.experiment import Experiment as AnyExperiment
from symphony.operations import delete as deletion
from symphony.operations.plan import Planned
from symphony.operations.up import Ended
from symphony.spec.shared import Text, Texts

if TYPE_CHECKING:
    from symphony.operations.tmux_session import Session


@options.take_old_keywords
class Cluster(Experiments):
    """One backend to launch experiments in.

    cluster = Cluster.new("tmux")
    experiment = cluster.new_experiment("rl")
    experiment.new_process("learner", command="python", args=["learner.py"])
    cluster.launch(experiment)

    preamble_cmds, start_dir: what Process takes, for the experiments that do not say it.

    What is launched here is a Pulumi stack of that name: `symphony` and `pulumi` see and change it too. Names
    of experiments, groups and processes may be given by a part of them. UserError: none or several match.
    """

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
    def new(backend: str, **given: Unpack[options.ClusterOptions]) -> Cluster: ...
    @staticmethod
    def new(backend: str = registry.DEFAULT, **given: Any) -> Cluster:
        """A cluster of a backend, with the options of its class: Cluster.new("tmux", start_dir="~/rl").

        backend: "tmux" for a TmuxCluster; "kubernetes", "kube", "k8s" or "gke" for a KubeCluster; or the name
        of an installed backend, for a Cluster.
        UserError: no such backend, or it has no such option, with those there are.
        """
        row = registry.named(backend if isinstance(backend, str) else repr(backend))  # pyright: ignore[reportUnnecessaryIsInstance]
        cluster = row.cluster_class(**given)
        cluster.backend = row.name
        return cluster

    @overload
    def new_experiment(self, name: str, **given: Unpack[ClassicExperimentOptions]) -> Experiment: ...
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
        """Declare an experiment: cluster.new_experiment("rl", env={"SEED": 1}).

        name: letters, digits, "-" and "_". port_range: (first, last) port of its services. secrets: files.
        These and all other keywords are those of Experiment; preamble_cmds and start_dir are by default those
        of this cluster. A wrong value is a UserError at launch, with its line.
        """
        given.update(port_range=port_range, secrets=secrets, preamble_cmds=preamble_cmds, start_dir=start_dir)
        require_name("an experiment", name)
        made = {key: value for key, value in given.items() if value is not None}
        return Experiment(SymphonyConfig().prefixed(name), **{**self._defaults, **made})

    @overload
    def launch(self, exp: AnyExperiment, force: bool = False, dry_run: Literal[False] = False) -> Ended: ...
    @overload
    def launch(self, exp: AnyExperiment, force: bool = False, *, dry_run: Literal[True]) -> Planned: ...
    @overload
    def launch(self, exp: AnyExperiment, force: bool = False, dry_run: bool = False) -> Ended | Planned: ...
    def launch(self, exp: AnyExperiment, force: bool = False, dry_run: bool = False) -> Any:
        """Start an experiment: cluster.launch(experiment). At a terminal progress and plan are shown as well.

        exp:     what new_experiment() returned.
        force:   change the experiment of that name, where there is one, to this one.
        dry_run: only return the plan.

        Inside a Pulumi program it is part of the run, which starts it or only plans it, and nothing is
        returned; symphony:backend of the stack goes before this cluster.
        UserError: one of that name exists, or it cannot run (PlanError).
        SymphonyError: it is up and some of its processes neither run nor came to a good end.
        """
        if not isinstance(exp, AnyExperiment):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise options.mistake(
                f"a {type(exp).__name__} is not an experiment", "Launch what new_experiment() returns"
            )
        if run.in_program():
            if dry_run:
                raise usage_error("dry_run=True has no meaning in a Pulumi program", "Run `symphony plan`")
            return run.launch(exp, self.settings)
        return launching.launch(exp, self.settings, force=force, dry_run=dry_run)

    def launch_batch(
        self, experiments: Iterable[AnyExperiment], force: bool = False
    ) -> list[Ended | Planned]:
        """Start several, one after the other: cluster.launch_batch([first, second]).

        experiments: what new_experiment() returned. force, errors: as launch(); those before it stay up.
        """
        return [self.launch(each, force=force) for each in experiments]

    def delete(self, name: str, dry_run: bool = False) -> None:
        """Stop an experiment and everything it started: cluster.delete("rl").

        name: of the experiment, or a part of it. dry_run: only look for it.
        UserError: there is none, or several match. SymphonyError: something of it could not be removed.
        """
        options.require_name("an experiment", name)
        if run.in_program():
            raise usage_error("delete() is called in a Pulumi program", f"Run `symphony delete {name}`")
        stack = self._stack(name)
        if not dry_run:
            for _ in deletion.delete(stack):
                pass

    def delete_batch(self, names: Iterable[str], dry_run: bool = False) -> None:
        """Stop several experiments, one after the other: cluster.delete_batch(["rl", "sweep"]).

        names, dry_run, errors: as delete(), of each; those before it stay deleted.
        """
        for name in names:
            self.delete(name, dry_run=dry_run)

    @property
    def settings(self) -> dict[str, str]:
        """The settings that this cluster gives a stack; those it is not told stay as the stack has them."""
        values = {key: value for key, value in self._settings.items() if value is not None}
        return {"symphony:backend": self.backend, **values}


class TmuxCluster(Cluster):
    """A Cluster of tmux on this machine.

    TmuxCluster("mine", preamble_cmds=["source venv/bin/activate"])

    server_name: which of several tmux servers of yours; "default" by default.
    preamble_cmds, start_dir: as Cluster. UserError: there is no such option.
    """

    backend = "tmux"
    options_type = options.TmuxOptions

    def __init__(self, server_name: str | None = None, **given: Unpack[options.ClusterOptions]) -> None:
        super().__init__(**given)
        self._settings = {"symphony:server": server_name}

    def session(self, name: str) -> Session:
        """The libtmux.Session of an experiment; .window("agent-0") is the libtmux.Window of a process.

        cluster.session("rl").window("agent-0").active_pane.send_keys("help")

        name: of the experiment, or a part of it. UserError: it does not run in tmux on this machine.
        """
        from symphony.operations import tmux_session

        return tmux_session.session(self._stack(name))


class KubeCluster(Cluster):
    """A Cluster of Kubernetes: the one that the current context of your kubeconfig names.

    KubeCluster(kubeconfig="~/.kube/config", context="my-cluster", image="me/rl:1")

    kubeconfig:    the path of another kubeconfig.
    context:       another context of it.
    image:         that of the processes that name none.
    namespace:     another than the name of the experiment.
    pod_security:  the Pod Security level of the namespace: "baseline", "restricted" or "privileged".
    expose:        the type of the Services that are exposed: "ClusterIP", "NodePort" or "LoadBalancer".
    source_ranges: who may reach a LoadBalancer, such as "203.0.113.0/24".
    patience:      seconds to wait for trouble that may pass, such as a machine that is not there yet.

    preamble_cmds, start_dir: as Cluster. UserError: there is no such option, or its value is none.

    The stack keeps them: `symphony config` lists its settings.
    """

    backend = "kubernetes"
    options_type = options.KubeOptions

    def __init__(self, **given: Unpack[options.KubeOptions]) -> None:
        own = {key: value for key, value in given.items() if key in options.KUBE_SETTINGS}
        super().__init__(**{key: value for key, value in given.items() if key not in own})  # pyright: ignore[reportArgumentType]
        self._settings = options.kube_settings(own)
