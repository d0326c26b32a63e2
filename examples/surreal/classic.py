"""stacks/surreal.py for the original Symphony: `python examples/surreal/classic.py`, from the root.

Both give the same plan.
"""

import itertools

from symphony.engine import Cluster

ENV = {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


def create_surreal(cluster, name, num_agents=4, num_evals=1, environment="CartPole-v1", seed=0):
    """Surreal's function of this name, for one pod type."""
    exp = cluster.new_experiment(name, start_dir="examples/surreal")

    def command(program, *words):
        options = ["--agents", num_agents, "--folder", f"runs/{name}"]
        options += ["--environment", environment, "--seed", seed]
        return ["-u", program + ".py", *words, *options]

    nonagent = exp.new_process_group("nonagent")
    learner = nonagent.new_process("learner", command="python", args=command("learner"))
    replay = nonagent.new_process("replay", command="python", args=command("replay"))
    ps = nonagent.new_process("ps", command="python", args=command("parameter_server"))
    tensorboard = nonagent.new_process("tensorboard", command="python", args=command("tensorboard_server"))
    tensorplex = nonagent.new_process("tensorplex", command="python", args=command("logger", "tensorplex"))
    loggerplex = nonagent.new_process("loggerplex", command="python", args=command("logger", "loggerplex"))

    agents = []
    for i in range(num_agents):
        args = command("agent", "--number", i)
        agents.append(exp.new_process(f"agent-{i}", command="python", args=args))
    evals = []
    for i in range(num_evals):
        args = command("evaluator", "--number", i)
        evals.append(exp.new_process(f"evaluator-{i}", command="python", args=args))

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
    for pod in [nonagent, *agents, *evals]:
        pod.restart_policy("OnFailure")
    return exp


cluster = Cluster.new("tmux")
cluster.launch(create_surreal(cluster, "surreal"))
