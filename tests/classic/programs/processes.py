"""Every way to declare a process: its command, environment and services."""

import os

from symphony.engine import AddressBook, Cluster

cluster = Cluster.new(os.environ["CLUSTER"])
exp = cluster.new_experiment("forms", port_range=range(21000, 21100))

# Shell lines for tmux; an image and its arguments for Kubernetes.
ps = exp.new_process(
    "ps", cmds=["echo ps at $SYMPH_PARAMS_ADDR", "sleep 3600"], container_image="rl:1", args=["--shards", 2]
)
ps.binds("params")
ps.bind(["replay", "metrics"])
ps.exposes({"tensorboard": None})
ps.expose({"dashboard": 21090})

words = ['echo $SEED $MODE "$0" $1; sleep 3600', 1, 0.5]
agent = exp.new_process("agent-0", command="sh -c", args=words, image="rl:1")
agent.connects("params", "replay")
agent.connect("metrics")
agent.set_env("SEED", 7)
agent.set_envs({"MODE": "train", "DEBUG": "no"})

made = exp.new_process("agent-1", container_image="rl:2", env={"SEED": 8})
made.set_command(["sh", "-c", "echo $SYMPHONY_ROLE $SEED; sleep 3600"])
made.set_args([])

# Outside of any experiment: the variables of services, for the user's own process.
assert AddressBook({"params": {"host": "h", "port": 1}}).dump()["SYMPH_PARAMS_ADDR"] == "h:1"
launched = cluster.launch(exp, dry_run="DRY_RUN" in os.environ)
