"""Options of a cluster for all its experiments; every backend has its own."""

import os

from symphony import KubeCluster, TmuxCluster

if os.environ["CLUSTER"] == "tmux":
    cluster = TmuxCluster(server_name="my_server", preamble_cmds=["export FROM_CLUSTER=yes"], start_dir="/")
else:
    cluster = KubeCluster(image="rl:1", namespace="lab", pod_security="restricted", expose="NodePort")
exp = cluster.new_experiment("opted")
exp.new_process("a", cmds=["echo $FROM_CLUSTER $(pwd)", "sleep 3600"]).exposes({"board": 6006})
launched = cluster.launch(exp, dry_run="DRY_RUN" in os.environ)
