"""Distributed reinforcement learning in the structure of create_surreal(); see examples/surreal/README.md.

Settings of the stack, under `config:` in stacks/Pulumi.NAME.yaml:
surreal:settings       options of the roles: environment, seed, ... (examples/surreal/shared/settings.py)
surreal:agents         number of agents, default 4; surreal:evals of evaluators, default 1
surreal:colocateAgent  how many agents share a process group (a pod on Kubernetes); likewise colocateEval
surreal:batchAgent     how many agents share a process; likewise batchEval
surreal:folder         folder of checkpoints, logs and TensorBoard files, relative to examples/surreal; in a
                       pod an absolute path, where surreal:nfs or a volume of the pod `nonagent` is mounted
surreal:image          the image to build for all pods: options of Image (repository, dockerfile, ...)
surreal:podTypes       by name: image, resource_request, resource_limit, selector, tolerations, and either
                       place (options of place()) or assign_to (options of GKEDispatcher)
surreal:agentPodType   the pod type of agents, default "agent"; surreal:nonagentPodType, default "nonagent";
                       surreal:evalPodType, default the pod type of agents
surreal:tfJson         the .tf.json of the cluster, for assign_to
surreal:nfs            server and path of an NFS share, which all processes mount at surreal:folder
surreal:tensorboardPort   default 6006; 0: any free port
"""

from itertools import chain
from typing import Any

import pulumi

from symphony import Experiment, GKEDispatcher, Image, Process, ProcessGroup, UserError

config = pulumi.Config("surreal")
config_file = f"stacks/Pulumi.{pulumi.get_stack()}.yaml"
# The stacks that the README starts, unless their settings say otherwise.
variant: dict[str, Any] = {
    "surreal.one": {"agents": 1},
    "surreal.pendulum": {"settings": {"environment": "Pendulum-v1"}},
}.get(pulumi.get_stack(), {})
settings: dict[str, Any] = config.get_object("settings") or variant.get("settings", {})
folder = config.get("folder") or f"runs/{pulumi.get_stack()}"
pod_types: dict[str, dict[str, Any]] = config.get_object("podTypes") or {}
nfs: dict[str, str] | None = config.get_object("nfs")
built: dict[str, Any] | None = config.get_object("image")
image = Image("surreal", **built) if built else None
tf_json = config.get("tfJson")
dispatcher = GKEDispatcher(tf_json) if tf_json else None


def number(setting: str, default: int) -> int:
    """Return a setting that is a number; 0 is valid."""
    given = config.get_int(setting)
    return default if given is None else given


def pod_type(setting: str, default: str) -> dict[str, Any]:
    """Return the pod type that a setting names, or {} if no pod types are configured."""
    name = config.get(setting) or default
    if pod_types and name not in pod_types:
        raise UserError(
            f'there is no pod type "{name}"',
            where=f"surreal:podTypes in {config_file}",
            remedy=f"Add it, or set surreal:{setting} to one of {', '.join(sorted(pod_types))}",
        )
    return pod_types.get(name, {})


agent_count = number("agents", variant.get("agents", 4))


def command(program: str, *words: str | int) -> dict[str, Any]:
    """Return the command of a role: its own options, and the settings of the run."""
    shared = {"agents": agent_count, "folder": folder, **settings}
    options = [word for name, value in shared.items() for word in (f"--{name.replace('_', '-')}", value)]
    return {"command": "python", "args": ["-u", f"{program}.py", *words, *options]}


def several(role: str, count: int, setting: str, kind: dict[str, Any]) -> list[Process]:
    """Declare numbered processes of a role: one per pod, `colocate` per pod, or `batch` roles per process."""
    colocate, batch = number(f"colocate{setting}", 1), number(f"batch{setting}", 1)
    if colocate > 1 and batch > 1:
        raise UserError(
            f"surreal:colocate{setting} and surreal:batch{setting} exclude each other",
            where=config_file,
            remedy="Remove one of the two",
        )
    share, pod_image = max(colocate, batch, 1), kind.get("image", image)
    made: list[Process] = []
    for index, first in enumerate(range(0, count, share)):
        members = range(first, min(first + share, count))
        if colocate > 1:
            pod = exp.new_process_group(f"{role}-pg-{index}", image=pod_image)
            inside = [
                pod.new_process(f"{role}-{each}", **command(role, "--number", each)) for each in members
            ]
        else:
            words = ("--number", first, "--count", len(members)) if batch > 1 else ("--number", first)
            name = f"{role}s-{index}" if batch > 1 else f"{role}-{first}"
            pod = exp.new_process(name, **command(role, *words), image=pod_image)
            inside = [pod]
        settle(pod, inside, kind)
        made += inside
    return made


def settle(pod: Process | ProcessGroup, processes: list[Process], kind: dict[str, Any]) -> None:
    """Set the node placement of a pod of this type, and the resources of its processes."""
    for process in processes:
        process.resource_request(**kind.get("resource_request", {}))
        process.resource_limit(**kind.get("resource_limit", {}))
        if "assign_to" in kind:
            if dispatcher is None:
                raise UserError(
                    "assign_to needs the pools of a cluster",
                    where=f"surreal:podTypes in {config_file}",
                    remedy="Set surreal:tfJson to its .tf.json, or use place instead of assign_to",
                )
            group = pod if isinstance(pod, ProcessGroup) else None
            dispatcher.assign_to(process, process_group=group, **kind["assign_to"])
    if "place" in kind:
        pod.place(**kind["place"])
    for key, value in kind.get("selector", {}).items():
        pod.node_selector(key, value)
    for toleration in kind.get("tolerations", []):
        pod.add_toleration(**toleration)
    pod.restart_policy("OnFailure")


agent_type = pod_type("agentPodType", "agent")
nonagent_type = pod_type("nonagentPodType", "nonagent")
eval_type = pod_type("evalPodType", config.get("agentPodType") or "agent")

# One thread for each process: the networks are small, and there are more processes than cores.
env = {"OMP_NUM_THREADS": 1, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}

with Experiment("surreal", start_dir="examples/surreal", env=env) as exp:
    nonagent = exp.new_process_group("nonagent", image=nonagent_type.get("image", image))
    learner = nonagent.new_process("learner", **command("learner"))
    replay = nonagent.new_process("replay", **command("replay"))
    ps = nonagent.new_process("ps", **command("parameter_server"))
    tensorboard = nonagent.new_process("tensorboard", **command("tensorboard_server"))
    tensorplex = nonagent.new_process("tensorplex", **command("logger", "tensorplex"))
    loggerplex = nonagent.new_process("loggerplex", **command("logger", "loggerplex"))
    settle(nonagent, [learner], nonagent_type)

    agents = several("agent", agent_count, "Agent", agent_type)
    evals = several("evaluator", number("evals", 1), "Eval", eval_type)

    for process in chain(agents, evals):
        process.connects("ps-frontend", "collector-frontend")
    ps.binds("ps-frontend", "ps-backend")
    ps.connects("parameter-publish")
    replay.binds("collector-frontend", "sampler-frontend", "collector-backend", "sampler-backend")
    # Not in create_surreal(): the learner sends the replay the priorities of its samples.
    replay.connects("parameter-publish")
    learner.connects("sampler-frontend")
    learner.binds("parameter-publish", "prefetch-queue")
    tensorplex.binds("tensorplex")
    loggerplex.binds("loggerplex")
    for process in chain(agents, evals, [ps, replay, learner]):
        process.connects("tensorplex", "loggerplex")
    tensorboard.exposes({"tensorboard": number("tensorboardPort", 6006) or None})

    if nfs is not None:
        for process in exp.list_all_processes():
            process.mount_nfs(server=nfs["server"], path=nfs["path"], mount_path=folder)
    elif folder.startswith("/"):
        # The volume survives restarts of the container: a restarted learner finds its checkpoint.
        nonagent.mount_empty_dir("runs", use_memory=False, mount_path=folder)
