"""A run of the user's Pulumi program: turns its experiment into a plan, and the plan into resources."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pulumi

from symphony import paths, run_request
from symphony.backends import registry, settings_reader
from symphony.backends.expand import ComponentInputs, Components, Context, Expander
from symphony.backends.stack_settings import StackSettings
from symphony.components import secret_env
from symphony.components.images import Images, named_images
from symphony.errors import SymphonyError, UserError
from symphony.plan.names import physical_name, quoted
from symphony.plan.problems import PlanError, Problem, error_report, would_move
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.shared import ImageSpec

if TYPE_CHECKING:
    from symphony.plan.plan import Plan

# engine/run/program_host.py uses the same name without importing this module.
_ATTRIBUTE = "_symphony_run"


class DeclaredExperiment(Protocol):
    """An experiment as the program declared it."""

    @property
    def name(self) -> str: ...
    @property
    def spec(self) -> ExperimentSpec: ...
    def register(
        self,
        plan: Plan,
        component_inputs: Mapping[str, ComponentInputs],
        manifests: Sequence[Mapping[str, Any]],
    ) -> None: ...
    def components(self) -> Components: ...


@dataclass
class ProgramRun:
    """The experiments that a run of a program has declared and launched, and the context of its stack."""

    context: Context
    experiments: list[DeclaredExperiment] = field(default_factory=list["DeclaredExperiment"])
    launched: list[DeclaredExperiment] = field(default_factory=list["DeclaredExperiment"])

    @property
    def expander(self) -> Expander:
        return registry.get(self.context.backend).expander

    def require_launched(self) -> None:
        """Raise pulumi.RunError if an experiment was declared but not launched."""
        for experiment in self.experiments:
            if experiment not in self.launched:
                raise pulumi.RunError(
                    f'Experiment "{experiment.name}" was declared but not launched'
                    f" ({experiment.spec.where})."
                    ' Use "with Experiment(...) as experiment:", or call its launch().'
                )

    @cached_property
    def images(self) -> Images:
        return Images(self.context)


def program_name() -> str:
    """Return the default name of an experiment: the stack's up to its first dot; in a script `experiment`."""
    return pulumi.get_stack().partition(".")[0] if _root() is not None else "experiment"


def record_declaration(experiment: DeclaredExperiment) -> None:
    """Record that the program has declared an experiment."""
    root = _root()
    if root is None:
        return
    run = _run_of(root)
    run.experiments.append(experiment)
    _refuse_second(run)


def in_program() -> bool:
    """Return whether a Pulumi program is running."""
    return _root() is not None


def launch(experiment: DeclaredExperiment, cluster: Mapping[str, str] | None = None) -> None:
    """Plan an experiment and register its components and resources.

    cluster: The settings of the Cluster that launches it; the stack's settings override them.
    """
    run = _run_of(require_root())
    if experiment not in run.experiments:
        # An experiment of a plain script was declared before the program began.
        run.experiments.append(experiment)
        _refuse_second(run)
    if experiment in run.launched:
        return
    run.launched.append(experiment)
    try:
        spec = replace(experiment.spec, accepts_classic_names=cluster is not None)
        _register(run, experiment, spec, cluster)
    except SymphonyError as error:
        raise run_error(error) from None


def _register(
    run: ProgramRun, experiment: DeclaredExperiment, spec: ExperimentSpec, cluster: Mapping[str, str] | None
) -> None:
    # Imported here: a process of an experiment that imports symphony needs no plan.
    from symphony.components import code_inputs
    from symphony.plan.build import build_plan

    if cluster:
        run.context = _context(cluster)
    _refuse_to_move(run.context)
    _require_plugins(run.context)
    clean, problems = secret_env.resolve_values(spec)
    clean = code_inputs.with_code_files(clean, run.context.folder)
    if "image" in registry.get(run.context.backend).settings:
        clean, built, image_problems = run.images.with_references(clean)
        problems += image_problems
        run.context = replace(run.context, images=built)
    else:
        clean = named_images(clean)
    plan = build_plan(clean, run.expander.limits(clean, run.context), problems, run.context.stack)
    if run_request.current().restart:
        _refuse_undeclared(plan, spec, run.context.stack)
        _refuse_new_supervision(plan, run.context.stack)
    remarks = (*_backend_remarks(run, cluster), *_name_remarks(run, experiment, cluster), *plan.remarks)
    code = {**plan.code, **run.images.files} if run.context.images else plan.code
    plan = replace(plan, remarks=remarks, images=run.context.images, code=code)
    prepared = run.expander.prepare(plan, clean, run.context)
    manifests = run.expander.manifests(prepared) if run_request.current().manifests else ()
    experiment.register(plan, run.expander.component_inputs(prepared), manifests)
    # Only the program knows the settings of its Cluster.
    patience = run.context.settings.patience
    report_facts({"program": _program(spec, run.context.folder), "patience": patience})
    resources = {image.reference: run.images.resource(image) for image in run.context.images}
    run.expander.expand(prepared, run.context, replace(experiment.components(), images=resources))


def run_error(error: SymphonyError) -> pulumi.RunError:
    """Return the error for the engine to show, and report its parts to the symphony command."""
    report_facts(error_report(error))
    return pulumi.RunError(str(error))


def report_facts(facts: Mapping[str, Any]) -> None:
    """Report facts to the command through the engine's debug log."""
    pulumi.log.debug(f"{run_request.REPORT}{json.dumps(facts)}")


def _refuse_second(run: ProgramRun) -> None:
    if len(run.experiments) < 2:
        return
    first, second, *_ = run.experiments
    problem = Problem(
        f'the program declares two experiments, "{first.name}" and "{second.name}"',
        "move one of them to another program and stack: a stack has a single experiment",
        (first.spec.where, second.spec.where),
    )
    raise run_error(PlanError(run.context.stack, [problem]))


def require_root() -> Any:
    """Return the stack of the running Pulumi program.

    Raises:
        SystemExit: No Pulumi program is running: the user ran `python __main__.py`.
    """
    if (root := _root()) is None:
        raise SystemExit(
            "symphony: this program must be run by Pulumi. Run it with `symphony up`,"
            ' or call Cluster.new("tmux").launch(experiment) in a plain script.'
        )
    return root


def _root() -> Any:
    return pulumi.runtime.get_root_resource()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _run_of(root: Any) -> ProgramRun:
    run: ProgramRun | None = getattr(root, _ATTRIBUTE, None)
    if run is None:
        try:
            run = ProgramRun(_context())
        except SymphonyError as error:
            raise run_error(error) from None
        setattr(root, _ATTRIBUTE, run)
    return run


def _program(spec: ExperimentSpec, folder: Path) -> dict[str, str]:
    """Return when the program's files in its folder were last changed, imported modules included."""
    declaring = {owner.where.file for owner in (spec, *(process for _, process in spec.members()))}
    loaded = {getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]}
    changed: dict[str, str] = {}
    for file in sorted(declaring | loaded):
        if file.startswith(f"{folder}/") and "site-packages" not in file:
            with contextlib.suppress(OSError):
                changed[file] = str(Path(file).stat().st_mtime_ns)
    return changed


def image(spec: ImageSpec) -> pulumi.Output[str]:
    """Return an image's reference by digest; it is built on every backend.

    Raises:
        pulumi.RunError: The image cannot be built.
    """
    run = _run_of(require_root())
    planned, problems, _ = run.images.plan_image(spec)
    if problems:
        raise run_error(PlanError(run.context.stack, problems))
    return run.images.resource(planned).image


def settings(cluster: Mapping[str, str] | None = None) -> StackSettings:
    """Return the settings of the stack, with a Cluster's settings as defaults.

    Raises:
        PlanError: Settings are wrong.
    """
    config = pulumi.runtime.config
    keys = {**config.get_config_env(), **config.CONFIG.get()}
    values = {**(cluster or {}), **{key: config.get_config(key) for key in keys}}
    stack_settings = settings_reader.read_settings(
        values, *settings_reader.files_of(Path.cwd(), pulumi.get_stack())
    )
    if stack_settings.problems:
        raise PlanError(pulumi.get_stack(), stack_settings.problems)
    return stack_settings


def _refuse_to_move(context: Context) -> None:
    """Refuse a program that moves a running stack to another backend; the command checks settings itself."""
    runs_on = run_request.current().runs_on
    if runs_on is not None and runs_on != context.backend:
        raise would_move(context.stack, runs_on, context.backend)


def _refuse_undeclared(plan: Plan, spec: ExperimentSpec, stack: str) -> None:
    """Refuse to restart processes that are no longer declared: the engine would stop them."""
    request = run_request.current()
    declared = {process.path for process in plan.processes if plan.name == request.experiment_name}
    if removed := [path for path in request.restart or () if path not in declared]:
        listed = f"{', '.join(removed[:5])}{', …' if len(removed) > 5 else ''}"
        them = "it" if len(removed) == 1 else "them"
        raise UserError(
            f"cannot restart {listed}: the program of {stack} no longer declares {them}",
            where=str(spec.where),
            remedy=f"Declare {them} again; `symphony plan {stack}` shows what `symphony up` would do",
        )


def _refuse_new_supervision(plan: Plan, stack: str) -> None:
    """Refuse to restart a process with settings that resources outside of the restart carry out."""
    from symphony.plan.changes import digest_of_supervision

    restarted, inputs = run_request.current().restart or {}, plan.process_inputs()
    for process in plan.processes:
        before = restarted.get(process.path)
        if before not in (None, digest_of_supervision(inputs[process.path])):
            raise UserError(
                f"cannot restart {process.path}: its services, order or probes changed in the program",
                where=process.where,
                remedy=f"Run `symphony up {stack}` first, which changes these for the whole experiment",
            )


def _require_plugins(context: Context) -> None:
    """Ask the command to run the program again with plugins, if a Cluster in it chose the backend."""
    if registry.get(context.backend).plugins and run_request.lacks_plugins() and not context.offline:
        report_facts({"needs_plugins": True})
        # The command runs the program again by itself; the words are for a plain `pulumi`.
        raise pulumi.RunError(f"{context.backend} needs Pulumi's plugins; run `symphony up` again")


def _name_remarks(
    run: ProgramRun, experiment: DeclaredExperiment, cluster: Mapping[str, str] | None
) -> Iterator[Problem]:
    """Yield a remark if the experiment runs under its stack's name, not the name in the program."""
    stack, name = run.context.stack, experiment.name
    if (
        cluster is None
        and run.context.settings.namespace is None
        and name not in (stack, stack.partition(".")[0])
    ):
        yield Problem(
            f"the experiment {quoted(name)} runs as {run.context.physical_name}, the name of its stack",
            f"rename the stack to {name}, or omit the name in the program",
            (experiment.spec.where,),
        )


def _backend_remarks(run: ProgramRun, cluster: Mapping[str, str] | None) -> Iterator[Problem]:
    """Yield a remark if the Cluster and the stack name different backends."""
    wanted, backend = (cluster or {}).get("symphony:backend"), run.context.backend
    if wanted and wanted != backend:
        yield Problem(
            f"symphony:backend of {run.context.stack} is {backend},"
            f" so the program's Cluster for {wanted} is ignored",
            "",
        )


def _context(cluster: Mapping[str, str] | None = None) -> Context:
    """Return the context of the running stack; cluster: settings that the stack's settings override."""
    project, stack = pulumi.get_project(), pulumi.get_stack()
    stack_settings = settings(cluster)
    request = run_request.current()
    return Context(
        project=project,
        stack=stack,
        owner=paths.owner_of(project, stack),
        physical_name=stack_settings.namespace
        or physical_name(stack, label=registry.get(stack_settings.backend).names_are_dns_labels),
        backend=stack_settings.backend,
        dry_run=pulumi.runtime.is_dry_run(),
        folder=Path.cwd(),
        settings=stack_settings,
        recorded=None if request.recorded is None else frozenset(request.recorded),
        offline=request.offline,
        is_partial=request.restart is not None,
    )
