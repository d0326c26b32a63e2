"""Names with capitals, dots and underscores, which the original accepted and a backend may not."""

import os

from symphony.engine import Cluster

cluster = Cluster.new(os.environ["CLUSTER"])
exp = cluster.new_experiment("My.Exp")
hello = ["echo $SYMPHONY_ROLE at $SYMPH_REPLAY_SERVER_ADDR", "sleep 3600"]
joy = exp.new_process("Joy", cmds=hello, container_image="i:1")
joy.binds("Replay_Server")
group = exp.new_process_group("Non_Agent")
agent = group.new_process("agent_0", cmds=hello, container_image="i:1")
agent.connects("Replay_Server")
launched = cluster.launch(exp, dry_run="DRY_RUN" in os.environ)
