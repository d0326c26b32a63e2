"""One run of the user's Pulumi program: what was declared and launched, and what happens at its end."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pulumi

from symphony import paths
from symphony.backends import registry, settings_reader, stack_file
from symphony.backends.expand import Components, Context, Expander
from symphony.backends.stack_settings import StackSettings
from symphony.components import debug_log, output_wait
from symphony.components.inputs import images, secret_env
from symphony.components.inputs.images import Images
from symphony.errors import SymphonyError, UserError
from symphony.plan import plan_file
from symphony.plan.names import launched_name
from symphony.plan.problems import PlanError, Problem
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.inputs.image import ImageSpec

if TYPE_CHECKING:
    from symphony.plan.plan import Plan

# engine/tuning/guard knows the name: it runs in programs that never load this.
_ATTRIBUTE = "_symphony_run"


class Declared(Protocol):
    """An experiment as the program declared it."""

    @property
    def name(self) -> str: ...
    @property
    def spec(self) -> ExperimentSpec: ...
    def register(self, plan: Plan) -> None: ...
    def components(self) -> Components: ...


@dataclass(frozen=True)
class Launched:
    """An experiment, what it declared when it was launched, and its plan."""

    experiment: Declared
    spec: ExperimentSpec
    checked: ExperimentSpec
    plan: Plan


@dataclass
class ProgramRun:
    """The experiments of one run of a program; a stack is one experiment."""

    context: Context
    experiments: list[Declared] = field(default_factory=list["Declared"])
    launched: dict[int, Launched] = field(default_factory=dict[int, "Launched"])
    built: Images | None = None

    @property
    def expander(self) -> Expander:
        return registry.get(self.context.backend).expander

    @property
    def images(self) -> Images:
        self.built = self.built or Images(self.context)
        return self.built


def program_name() -> str:
    """The name of an experiment that is given none: the stack's up to the first dot, its program's."""
    return pulumi.get_stack().partition(".")[0] if _root() is not None else "experiment"


def declared(experiment: Declared) -> None:
    """Note a declaration; outside a Pulumi program there is nothing to note."""
    root = _root()
    if root is None:
        return
    run: ProgramRun | None = getattr(root, _ATTRIBUTE, None)
    if run is None:
        run = _begin(root)
    run.experiments.append(experiment)


def in_program() -> bool:
    """Whether a Pulumi program is running."""
    return _root() is not None


def launch(experiment: Declared, given: Mapping[str, str] | None = None) -> None:
    """Plan an experiment and register its components; its resources follow when the program has ended.

    given: the settings of the Cluster that launches it; those of the stack go before them.
    """
    root = require_root()
    # An experiment of a plain script was declared before the program began.
    run: ProgramRun = getattr(root, _ATTRIBUTE, None) or _begin(root)
    if not any(each is experiment for each in run.experiments):
        run.experiments.append(experiment)
    _refuse_second(run)
    if id(experiment) in run.launched:
        return
    launched = _planned(run, experiment, replace(experiment.spec, maps_names=given is not None), given)
    experiment.register(launched.plan)
    run.launched[id(experiment)] = launched


def _planned(
    run: ProgramRun, experiment: Declared, spec: ExperimentSpec, given: Mapping[str, str] | None
) -> Launched:
    # Who imports symphony inside a process plans nothing, and need not load the rules.
    from symphony.components.inputs import code_files
    from symphony.plan.build import build_plan

    try:
        if given:
            run.context = _context(given)
        _refuse_to_move(run.context)
        _require_plugins(run.context)
        clean, problems = secret_env.read(spec)
        clean = code_files.read(clean, run.context.folder, run.context.stack)
        if "image" in registry.get(run.context.backend).settings:
            clean, built, image_problems = run.images.named(clean)
            problems += image_problems
            run.context = replace(run.context, images=built)
        else:
            clean = images.unused(clean)
        plan = build_plan(clean, run.expander.target(clean, run.context), problems)
        _refuse_undeclared(plan, spec, run.context.stack)
        remarks = (*_overruled(run, given), *plan.remarks)
        code = {**plan.code, **run.images.files} if run.context.images else plan.code
        plan = replace(plan, remarks=remarks, images=run.context.images, code=code)
        return Launched(experiment, spec, clean, plan)
    except PlanError as error:
        raise _refused(run, error.problems) from None
    except SymphonyError as error:
        raise _failed(error) from None


def _refused(run: ProgramRun, problems: Sequence[Problem]) -> pulumi.RunError:
    """The problems for the engine and the symphony command to show, under the name of the stack."""
    error = PlanError(run.context.stack, problems)
    plan_file.write_problems(error)
    return pulumi.RunError(str(error))


def _failed(error: SymphonyError) -> pulumi.RunError:
    """The error for the engine to show; what is not the user's mistake the symphony command is told, too."""
    if not isinstance(error, UserError):
        plan_file.write_failure(error)
    return pulumi.RunError(str(error))


def _refuse_second(run: ProgramRun) -> None:
    if len(run.experiments) < 2:
        return
    first, second, *_ = run.experiments
    problem = Problem(
        f'"{first.name}" and "{second.name}" are two experiments in one program',
        "a stack is one experiment: move one to a program and stack of its own",
        (first.spec.where, second.spec.where),
    )
    raise _refused(run, [problem])


def require_root() -> Any:
    """The stack of the running Pulumi program; what is run as `python __main__.py` ends with one line."""
    if (root := _root()) is None:
        raise SystemExit(
            "symphony: no Pulumi program is running. Run this one with `symphony up`;"
            ' a plain script calls Cluster.new("tmux").launch(experiment).'
        )
    return root


def _root() -> Any:
    return pulumi.runtime.get_root_resource()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _begin(root: Any) -> ProgramRun:
    """Start noting for this program, and act once when it has come to its end without an error."""
    debug_log.drop_debug_messages()
    output_wait.wait_linearly()
    try:
        run = ProgramRun(_context())
    except SymphonyError as error:
        raise _failed(error) from None
    setattr(root, _ATTRIBUTE, run)
    register_outputs = root.register_outputs

    def ended(outputs: Any) -> Any:
        root.register_outputs = register_outputs
        if sys.exc_info()[0] is None:
            _expand(run)
        return register_outputs(outputs)

    root.register_outputs = ended
    return run


def _expand(run: ProgramRun) -> None:
    _refuse_second(run)
    for experiment in run.experiments:
        if id(experiment) not in run.launched:
            raise pulumi.RunError(
                f'Experiment "{experiment.name}" is declared but never launched ({experiment.spec.where}).'
                ' Declare it in "with Experiment(...) as experiment:", or call its launch().'
            )
    for launched in run.launched.values():
        experiment = launched.experiment
        if experiment.spec != launched.spec:
            raise pulumi.RunError(
                f'Experiment "{experiment.name}" is changed after its launch ({experiment.spec.where}).'
                " Make every change inside its with block, or before launch()."
            )
        try:
            prepared = run.expander.prepare(launched.plan, launched.checked, run.context)
            built = {each.reference: run.images.resource(each) for each in run.context.images}
            components = replace(experiment.components(), images=built)
            rendered = run.expander.expand(prepared, run.context, components)
            manifests = run.expander.manifests(prepared) if plan_file.wants_manifests() else ()
        except PlanError as error:
            raise _refused(run, error.problems) from None
        except SymphonyError as error:
            raise _failed(error) from None
        plan_file.write_plan(launched.plan, rendered, _program(launched.spec, run.context.folder), manifests)


def _program(spec: ExperimentSpec, folder: Path) -> dict[str, str]:
    """The files of the program in its folder, and when they changed: those that declare, and its modules."""
    declared = {each.where.file for each in (spec, *(process for _, process in spec.members()))}
    loaded = {getattr(each, "__file__", None) or "" for each in [*sys.modules.values()]}
    result: dict[str, str] = {}
    for file in sorted(declared | loaded):
        if file.startswith(f"{folder}/") and "site-packages" not in file:
            with contextlib.suppress(OSError):
                result[file] = str(Path(file).stat().st_mtime_ns)
    return result


def image(spec: ImageSpec) -> pulumi.Output[str]:
    """The image by its digest; built whatever the backend. pulumi.RunError: it cannot be."""
    root = require_root()
    run: ProgramRun = getattr(root, _ATTRIBUTE, None) or _begin(root)
    planned, problems, _ = run.images.read(spec)
    if problems:
        raise _refused(run, problems)
    return run.images.resource(planned).image


def settings(given: Mapping[str, str] | None = None) -> StackSettings:
    """What the configuration of the stack says, else what is given. pulumi.RunError: what is wrong in it."""
    config = pulumi.runtime.config
    keys = {**config.get_config_env(), **config.CONFIG.get()}
    files: tuple[Path, ...] = ()
    if not plan_file.is_asked():
        # A symphony command has looked at them itself.
        files = stack_file.files(Path.cwd(), pulumi.get_stack())
    read = settings_reader.read({**(given or {}), **{key: config.get_config(key) for key in keys}}, *files)
    if read.problems:
        error = PlanError(pulumi.get_stack(), read.problems)
        plan_file.write_problems(error)
        raise pulumi.RunError(str(error))
    return read


def _refuse_to_move(context: Context) -> None:
    """What is up on another backend the settings name, where they say one: an operation has seen to that."""
    runs_on = plan_file.runs_on()
    if runs_on is not None and runs_on != context.backend:
        raise plan_file.would_move(context.stack, runs_on, context.backend)


def _refuse_undeclared(plan: Plan, spec: ExperimentSpec, stack: str) -> None:
    """The engine would end what is to start again, and is not there any more."""
    if (restarted := plan_file.restarted()) is None:
        return
    declared = {each.path for each in plan.processes} if plan.name == restarted.experiment else set[str]()
    if gone := [path for path in restarted.paths if path not in declared]:
        what = f"{', '.join(gone[:5])}{', …' if len(gone) > 5 else ''} {'is' if len(gone) == 1 else 'are'}"
        raise UserError(
            f"{what} not declared any more by the program of {stack}",
            where=str(spec.where),
            remedy=f"`symphony plan {stack}` shows what `symphony up` would do",
        )


def _require_plugins(context: Context) -> None:
    """Of a Cluster's backend the command only knows when the program has run."""
    if registry.get(context.backend).plugins and plan_file.lacks_plugins() and not context.offline:
        plan_file.ask_for_plugins()
        raise pulumi.RunError(f"{context.backend} needs plugins of Pulumi")


def _overruled(run: ProgramRun, given: Mapping[str, str] | None) -> Iterator[Problem]:
    """What the Cluster says and the stack says otherwise."""
    wanted, backend = (given or {}).get("symphony:backend"), run.context.backend
    if wanted and wanted != backend:
        goes_before = f"is {backend}, which goes before the {wanted} cluster."
        yield Problem(f"symphony:backend of {run.context.stack} {goes_before}", "")


def _context(given: Mapping[str, str] | None = None) -> Context:
    """The stack that runs; given: settings that hold where it says nothing."""
    project, stack = pulumi.get_project(), pulumi.get_stack()
    read = settings(given)
    return Context(
        project=project,
        stack=stack,
        owner=paths.owner_of(project, stack),
        launched_as=read.namespace or launched_name(stack, label=registry.get(read.backend).labels),
        backend=read.backend,
        dry_run=pulumi.runtime.is_dry_run(),
        folder=Path.cwd(),
        settings=read,
        recorded=plan_file.recorded(),
        offline=plan_file.wants_manifests() and plan_file.runs_on() is None,
        is_partial=plan_file.restarted() is not None,
    )
