"""Distributed reinforcement learning in the structure of create_surreal(); see examples/surreal/README.md.

Settings of the stack, under `config:` in stacks/Pulumi.NAME.yaml:
surreal:settings       options of the roles: environment, seed, ... (examples/surreal/shared/settings.py)
surreal:agents         how many agents, 4 unless given; surreal:evals how many evaluators, 1 unless given
surreal:colocateAgent  how many agents share a process group, a pod on Kubernetes
surreal:batchAgent     how many agents share a process
surreal:folder         where checkpoint, log and TensorBoard files go: under examples/surreal, in pods a mount
surreal:image          what image to build for all pods, the options of Image: repository, dockerfile, ...
surreal:podTypes       by name: image, place, resource_request, resource_limit, selector, tolerations
surreal:agentPodType   which of them agents have, "agent" unless given; so nonagentPodType, evalPodType
surreal:nfs            server and path of an NFS share that all processes mount at surreal:folder
surreal:tensorboardPort   6006 unless given; 0: any
"""

from itertools import chain
from typing import Any

import pulumi

from symphony import Experiment, Image, Process, ProcessGroup, UserError

config = pulumi.Config("surreal")
agent_count, eval_count = config.get_int("agents") or 4, config.get_int("evals") or 1
colocate_agent, batch_agent = config.get_int("colocateAgent") or 1, config.get_int("batchAgent") or 1
settings: dict[str, Any] = config.get_object("settings") or {}
folder = config.get("folder") or f"runs/{pulumi.get_stack()}"
pod_types: dict[str, dict[str, Any]] = config.get_object("podTypes") or {}
nfs: dict[str, str] | None = config.get_object("nfs")
tensorboard_port = config.get_int("tensorboardPort")
built: dict[str, Any] | None = config.get_object("image")
image = Image("surreal", **built) if built else None

if colocate_agent > 1 and batch_agent > 1:
    raise UserError(
        "agents cannot be colocated and batched at once",
        where=f"surreal:colocateAgent and surreal:batchAgent in stacks/Pulumi.{pulumi.get_stack()}.yaml",
        remedy="Remove one of the two",
    )


def pod_type(setting: str, default: str) -> dict[str, Any]:
    """The pod type that a setting names; with no pod types at all everything is left to the defaults."""
    name = config.get(setting) or default
    if pod_types and name not in pod_types:
        raise UserError(
            f'there is no pod type "{name}"',
            where=f"surreal:podTypes in stacks/Pulumi.{pulumi.get_stack()}.yaml",
            remedy=f"Add it, or set surreal:{setting} to one of {', '.join(sorted(pod_types))}",
        )
    return pod_types.get(name, {})


def command(program: str, *words: str | int) -> dict[str, Any]:
    """How a role is started: what it is told beside the settings of the run, which are the same for all."""
    told = {"agents": agent_count, "folder": folder, **settings}
    options = [word for name, value in told.items() for word in (f"--{name.replace('_', '-')}", value)]
    return {"command": "python", "args": ["-u", f"{program}.py", *words, *options]}


def place(pod: Process | ProcessGroup, kind: dict[str, Any]) -> None:
    """On which machines a pod may run: those of a pool or a size, or what node selectors say."""
    if "place" in kind:
        pod.place(**kind["place"])
    for key, value in kind.get("selector", {}).items():
        pod.node_selector(key, value)
    for toleration in kind.get("tolerations", []):
        pod.add_toleration(**toleration)
    pod.restart_policy("OnFailure")


def claim(process: Process, kind: dict[str, Any]) -> None:
    """What a process claims of its machine."""
    process.resource_request(**kind.get("resource_request", {}))
    process.resource_limit(**kind.get("resource_limit", {}))


agent_type = pod_type("agentPodType", "agent")
nonagent_type = pod_type("nonagentPodType", "nonagent")
eval_type = pod_type("evalPodType", config.get("agentPodType") or "agent")

# One thread each: the networks are small, and there are more processes than cores.
env = {"OMP_NUM_THREADS": 1, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}

with Experiment("surreal", start_dir="examples/surreal", env=env) as exp:
    nonagent = exp.new_process_group("nonagent", image=nonagent_type.get("image", image))
    learner = nonagent.new_process("learner", **command("learner"))
    replay = nonagent.new_process("replay", **command("replay"))
    ps = nonagent.new_process("ps", **command("parameter_server"))
    tensorboard = nonagent.new_process("tensorboard", **command("tensorboard_server"))
    tensorplex = nonagent.new_process("tensorplex", **command("logger", "tensorplex"))
    loggerplex = nonagent.new_process("loggerplex", **command("logger", "loggerplex"))

    agents: list[Process] = []
    agent_pods: list[Process | ProcessGroup] = []
    agent_image = agent_type.get("image", image)
    if batch_agent > 1:
        for number, first in enumerate(range(0, agent_count, batch_agent)):
            words = ("--number", first, "--batch-agents", batch_agent)
            agents.append(exp.new_process(f"agents-{number}", **command("agent", *words), image=agent_image))
        agent_pods.extend(agents)
    elif colocate_agent > 1:
        for number in range(agent_count):
            if number % colocate_agent == 0:
                group = exp.new_process_group(f"agent-pg-{number // colocate_agent}", image=agent_image)
                agent_pods.append(group)
            agents.append(group.new_process(f"agent-{number}", **command("agent", "--number", number)))
    else:
        for number in range(agent_count):
            words = ("--number", number)
            agents.append(exp.new_process(f"agent-{number}", **command("agent", *words), image=agent_image))
        agent_pods.extend(agents)

    evals = [
        exp.new_process(
            f"eval-{number}", **command("evaluator", "--number", number), image=eval_type.get("image", image)
        )
        for number in range(eval_count)
    ]

    for process in chain(agents, evals):
        process.connects("ps-frontend", "collector-frontend")
    ps.binds("ps-frontend", "ps-backend")
    ps.connects("parameter-publish")
    replay.binds("collector-frontend", "sampler-frontend", "collector-backend", "sampler-backend")
    # Beside create_surreal(): the learner tells the replay the priorities of what it learned from.
    replay.connects("parameter-publish")
    learner.connects("sampler-frontend")
    learner.binds("parameter-publish", "prefetch-queue")
    tensorplex.binds("tensorplex")
    loggerplex.binds("loggerplex")
    for process in chain(agents, evals, [ps, replay, learner]):
        process.connects("tensorplex", "loggerplex")
    tensorboard.exposes({"tensorboard": 6006 if tensorboard_port is None else tensorboard_port or None})

    if nfs is not None:
        for process in exp.list_all_processes():
            process.mount_nfs(server=nfs["server"], path=nfs["path"], mount_path=folder)
    elif folder.startswith("/"):
        # It outlives the containers of its pod: a learner that is started again finds its checkpoint.
        nonagent.mount_empty_dir("runs", use_memory=False, mount_path=folder)

    claim(learner, nonagent_type)
    place(nonagent, nonagent_type)
    for process in agents:
        claim(process, agent_type)
    for pod in agent_pods:
        place(pod, agent_type)
    for process in evals:
        claim(process, eval_type)
        place(process, eval_type)
