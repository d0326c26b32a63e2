"""The limits of the Slurm backend, and its problems and remarks about an experiment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from symphony.backends import launching, local_commands
from symphony.backends.expand import Context
from symphony.backends.slurm import job_size
from symphony.backends.slurm.backend import BACKEND
from symphony.backends.slurm.settings import Settings, folder_for, settings_of
from symphony.errors import SymphonyError
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.names import and_more, did_you_mean, quoted
from symphony.plan.problems import Problem
from symphony.plan.services import fixed_ports
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec, path_of
from symphony.spec.pod import Place
from symphony_slurm import commands
from symphony_slurm.folder import Folder
from symphony_tmux.processes import launch_file
from symphony_tmux.processes.environment import RESERVED, search_path

# The states of nodes on which Slurm starts jobs, now or after the present ones.
_IN_USE = frozenset({"idle", "mix", "alloc", "comp", "plnd"})


def limits(spec: ExperimentSpec, context: Context) -> BackendLimits:
    """Return the limits of Slurm and the experiment's problems; nodes and ports are chosen later."""
    path = search_path(launch_file.caller())
    settings, folder = settings_of(context), folder_for(context)
    problems, remarks = _check_job(spec, settings, folder)
    problems = (*_unsupported_places(spec), *_split_groups(spec), *problems)
    return BackendLimits(
        backend="slurm",
        physical_name=context.physical_name,
        starts="command",
        supports=BACKEND.settings,
        one_host=False,
        host_of="the-node-of-{service}",
        bind_host="0.0.0.0",
        ports={name: port or 0 for name, port in fixed_ports(spec).items()},
        unreadable=local_commands.unusable(spec, context.folder),
        unstartable=local_commands.unstartable(spec, context.folder, path),
        reserved=RESERVED,
        defaults={"start_dir": str(context.folder)},
        problems=problems,
        pools_are_known=False,
        remarks=(
            *remarks,
            *local_commands.missing_programs(spec, context.folder, path, settings.notify),
        ),
        changed_files=launching.changed_files(spec, folder.place),
    )


def _unsupported_places(spec: ExperimentSpec) -> Iterator[Problem]:
    """Yield a problem for each place() with a pool, per_machine or spot, or of a whole group."""
    for owner in (*spec.groups, *(process for _, process in spec.members())):
        place = owner.place
        if isinstance(owner, ProcessGroupSpec) and place != Place():
            what = f"the group {owner.name} calls place(), but Slurm places processes, not groups"
            yield Problem(what, "call place() on each of its processes instead", (owner.at("place"),))
        elif place.pool or place.per_machine or place.spot:
            what = f"{owner.name} sets pool, per_machine or spot in place(), which Slurm does not have"
            yield Problem(what, "use constraint, or symphony:partition", (owner.at("place"),))


def _split_groups(spec: ExperimentSpec) -> Iterator[Problem]:
    """Yield a problem for each group with processes in several partitions."""
    for group in spec.groups:
        placed = [process for process in group.processes if process.place.partition]
        if len(partitions := sorted({str(process.place.partition) for process in placed})) > 1:
            what = f"the group {group.name} has processes in the partitions {' and '.join(partitions)}"
            lines = tuple(process.at("place partition") for process in placed)
            yield Problem(what, "place all of them in one partition: a group runs on one node", lines)


def _unknown_partitions(spec: ExperimentSpec, known: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for each process in a partition that the cluster does not have."""
    for group, process in spec.members():
        # Slurm chooses among several, as in "gpu,big".
        for name in {*(process.place.partition or "").split(",")}.difference(["", *known]):
            remedy = did_you_mean(name, known, f"its partitions are {', '.join(known)}")
            path = path_of(group, process)
            what = f"{path} is placed in the partition {quoted(name)}, which the cluster does not have"
            yield Problem(what, remedy, (process.at("place partition"),))


def _check_job(
    spec: ExperimentSpec, settings: Settings, folder: Folder
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return problems if Slurm would never start the job, and remarks if a new job will be submitted."""
    members = (
        (path_of(group, process), process, group.name if group else "") for group, process in spec.members()
    )
    options = job_size.options_of(settings, job_size.shares_of(members, settings), folder)
    request = f"The job asks for {job_size.in_words(options)}"
    current, job = folder.options(), folder.job()
    if current is not None and [*current] == options:
        return (), ()
    new = ""
    if current and job:
        new = f"; it needs a new allocation: job {job.number} {job_size.reason(current, options)}"
    try:
        time_limits = commands.time_limits(settings.slurm_conf or "")
        if unknown := [*_unknown_partitions(spec, [name for name in time_limits if name])]:
            return tuple(unknown), ()
        if too_many := _missing_nodes(options, settings):
            return (Problem(too_many, "set symphony:nodes to fewer nodes", (spec.where,)),), ()
        start = commands.expected_start(settings.slurm_conf or "", options)
    except commands.NoAnswer as error:
        return (Problem(error.what, error.remedy, (spec.where,)),), ()
    except SymphonyError as error:
        # `sbatch --test-only` refuses what sbatch would queue until those nodes are back.
        if missing := _unavailable_nodes(options, settings):
            what = f"{request}{new}; it will wait until enough nodes are back: {error.what}; {missing}"
            return (), (Problem(what, ""),)
        what = f"{request}{new}, but Slurm would not start it: {error.what}"
        return (Problem(what, "request less, or change the settings of the stack", (spec.where,)),), ()
    time = start[:16].replace("T", " ")
    expected = f"{new}; Slurm expects to start it at about {time}"
    components = job_size.components(options)
    over = _over_time_limits(components, time_limits)
    if len(components) == 1:
        return (), (Problem(f"{request}{expected}", ""), *over)
    sizes = [f"component {n} asks for {job_size.in_words(part)}" for n, part in enumerate(components)]
    lines = [f"The job has {len(components)} components{expected}", *sizes]
    return (), (*(Problem(line, "") for line in lines), *over)


def _missing_nodes(options: Sequence[str], settings: Settings) -> str:
    """Return which components need more nodes than their partitions have; Slurm would queue them for ever.

    `sbatch --test-only` looks at each component alone.
    """
    components = job_size.components(options)
    if len(components) == 1:
        return ""
    nodes = commands.nodes_by_partition(settings.slurm_conf or "")
    for count in range(2, len(components) + 1):
        for some in combinations(components, count):
            partitions = [job_size.partition_of(part) for part in some]
            names = {name for text in partitions for name in text.split(",")}
            available = {node for name in names for node in nodes.get(name, ())}
            if (asked := sum(map(job_size.nodes_of, some))) > len(available):
                where = " and ".join(name or "the default" for name in partitions)
                return (
                    f"the job asks for {asked} nodes in the partitions {where}, which have {len(available)}"
                    " together; the components of a job share no node"
                )
    return ""


def _unavailable_nodes(options: Sequence[str], settings: Settings) -> str:
    """Return the nodes that Slurm does not use now, if the others are too few for the job; else empty."""
    components = job_size.components(options)
    nodes = commands.nodes_by_partition(settings.slurm_conf or "")
    names = {name for part in components for name in job_size.partition_of(part).split(",")}
    states = {node: state for name in names for node, state in nodes.get(name, {}).items()}
    missing = [f"{node} {state}" for node, state in states.items() if state not in _IN_USE]
    is_short = len(states) - len(missing) < sum(map(job_size.nodes_of, components))
    return and_more(missing, 3) if is_short else ""


def _over_time_limits(
    components: Iterable[Sequence[str]], time_limits: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield a remark for each component whose time exceeds its partition's limit; a QOS may allow more."""
    for options in components:
        names, asked = job_size.partition_of(options), job_size.time_of(options)
        allowed = [time_limits[name] for name in names.split(",") if name in time_limits]
        longest = max(allowed, key=commands.seconds_of, default="")
        if asked and longest and commands.seconds_of(asked) > commands.seconds_of(longest):
            where = f"the partition {names}" if names else "the default partition"
            what = f"the job asks for {asked}, but {where} allows {longest} (PartitionTimeLimit)"
            yield Problem(what, f"set symphony:time to {longest} or less")
