"""stacks/surreal.py in the API of the original Symphony: `python examples/surreal/classic.py`, from the root.

Both give the same plan. SURREAL_CONFIG names a YAML file with the content of the original's ~/.surreal.yml.
"""

import itertools
import os
from pathlib import Path

import yaml

from symphony.engine import Cluster

ENV = {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


def create_surreal(cluster, name, C, num_agents=4, num_evals=1, colocate_agent=1, batch_agent=1):
    """Declare the processes as Surreal's function of this name does; C is its configuration."""
    pod_types = C.get("pod_types", {})
    agent_pod_spec = pod_types.get("agent", {})
    nonagent_pod_spec = pod_types.get("nonagent", {})
    eval_pod_spec = pod_types.get("eval", agent_pod_spec)
    folder = C["fs"]["mount_path"] if "fs" in C else f"runs/{name}"
    settings = C.get("settings", {"environment": "CartPole-v1", "seed": 0})

    exp = cluster.new_experiment(name, start_dir="examples/surreal")

    def command(program, *words):
        options = ["--agents", num_agents, "--folder", folder]
        for key, value in settings.items():
            options += ["--" + key.replace("_", "-"), value]
        return {"command": "python", "args": ["-u", program + ".py", *words, *options]}

    nonagent = exp.new_process_group("nonagent")
    image = nonagent_pod_spec.get("image")
    learner = nonagent.new_process("learner", container_image=image, **command("learner"))
    replay = nonagent.new_process("replay", container_image=image, **command("replay"))
    ps = nonagent.new_process("ps", container_image=image, **command("parameter_server"))
    tensorboard = nonagent.new_process("tensorboard", container_image=image, **command("tensorboard_server"))
    tensorplex = nonagent.new_process("tensorplex", container_image=image, **command("logger", "tensorplex"))
    loggerplex = nonagent.new_process("loggerplex", container_image=image, **command("logger", "loggerplex"))

    agents = []
    agent_pods = []
    image = agent_pod_spec.get("image")
    if colocate_agent > 1:
        for i in range(0, num_agents, colocate_agent):
            agent_pods.append(exp.new_process_group(f"agent-pg-{i // colocate_agent}"))
        for i in range(num_agents):
            pod = agent_pods[i // colocate_agent]
            args = command("agent", "--number", i)
            agents.append(pod.new_process(f"agent-{i}", container_image=image, **args))
    elif batch_agent > 1:
        for i in range(0, num_agents, batch_agent):
            args = command("agent", "--number", i, "--count", min(batch_agent, num_agents - i))
            agents.append(exp.new_process(f"agents-{i // batch_agent}", container_image=image, **args))
        agent_pods = agents
    else:
        for i in range(num_agents):
            args = command("agent", "--number", i)
            agents.append(exp.new_process(f"agent-{i}", container_image=image, **args))
        agent_pods = agents
    evals = []
    image = eval_pod_spec.get("image")
    for i in range(num_evals):
        args = command("evaluator", "--number", i)
        evals.append(exp.new_process(f"evaluator-{i}", container_image=image, **args))

    for proc in itertools.chain(agents, evals):
        proc.connects("ps-frontend")
        proc.connects("collector-frontend")

    ps.binds("ps-frontend")
    ps.binds("ps-backend")
    ps.connects("parameter-publish")

    replay.binds("collector-frontend")
    replay.binds("sampler-frontend")
    replay.binds("collector-backend")
    replay.binds("sampler-backend")
    replay.connects("parameter-publish")

    learner.connects("sampler-frontend")
    learner.binds("parameter-publish")
    learner.binds("prefetch-queue")

    tensorplex.binds("tensorplex")
    loggerplex.binds("loggerplex")

    for proc in itertools.chain(agents, evals, [ps, replay, learner]):
        proc.connects("tensorplex")
        proc.connects("loggerplex")

    tensorboard.exposes({"tensorboard": 6006})

    for proc in exp.list_all_processes():
        proc.set_envs(ENV)
        if "fs" in C:
            fs = C["fs"]
            proc.mount_nfs(server=fs["server"], path=fs["path_on_server"], mount_path=fs["mount_path"])

    specs = [(agents, agent_pod_spec), (evals, eval_pod_spec), ([learner], nonagent_pod_spec)]
    for procs, spec in specs:
        for proc in procs:
            proc.resource_request(**spec.get("resource_request", {}))
            proc.resource_limit(**spec.get("resource_limit", {}))
    specs = [(agent_pods, agent_pod_spec), (evals, eval_pod_spec), ([nonagent], nonagent_pod_spec)]
    for pods, spec in specs:
        for pod in pods:
            for key, value in spec.get("selector", {}).items():
                pod.node_selector(key=key, value=value)
            for toleration in spec.get("tolerations", []):
                pod.add_toleration(**toleration)
            pod.restart_policy("OnFailure")
    return exp


file = os.environ.get("SURREAL_CONFIG")
C = yaml.safe_load(Path(file).read_text()) if file else {}
cluster = Cluster.new(C.get("cluster", "tmux"))
cluster.launch(create_surreal(cluster, "surreal", C, **C.get("create", {})))
