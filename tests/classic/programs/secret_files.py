"""A file that only the processes may read, under /etc/secrets or wherever SYMPH_SECRETS_DIR says."""

import os
from pathlib import Path

from symphony.engine import Cluster

Path("mjkey.txt").write_text("the key\n")
cluster = Cluster.new(os.environ["CLUSTER"])
exp = cluster.new_experiment("keyed", secrets=["mjkey.txt"], preamble_cmds=["export GREETING=hello"])
lines = ["echo $GREETING", "cat $SYMPH_SECRETS_DIR/mjkey.txt", "sleep 3600"]
exp.new_process("sim", cmds=lines, container_image="mujoco:1")
exp.new_process_group("sims").new_process("sim-0", cmds=lines, container_image="mujoco:1")
launched = cluster.launch(exp, dry_run="DRY_RUN" in os.environ)
