"""Placement and settings of pods on Kubernetes; tmux accepts the same calls and ignores most of them."""

import os

from symphony.engine import Cluster

cluster = Cluster.new(os.environ["CLUSTER"])
exp = cluster.new_experiment("placed")
WORK = ["echo here", "sleep 3600"]

learner = exp.new_process("learner", cmds=WORK, container_image="rl:1")
learner.resource_request(cpu=1.5, mem="2Gi")
learner.resource_limit(cpu=2, memory="4Gi", gpu=1)
learner.resource_request(cpu=2)
learner.image_pull_policy("Always")
learner.node_selector("cloud.google.com/gke-nodepool", "gpu")
learner.add_toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")
learner.add_toleration("surreal", "Equal", "true", "NoExecute", tolerationSeconds=60)
learner.restart_policy("OnFailure")
learner.add_label("team", "rl")
learner.add_labels(stage="test")
learner.mount_nfs("10.0.0.2", "/data", "/mnt/data")
learner.mount_secret("wandb", "/etc/wandb", defaultMode=0o400)
learner.mount_git_repo("https://example.com/rl.git", "main", "/code")
learner.mount_empty_dir("scratch", True, "/scratch")
learner.mount_shared_memory()
learner.container_yml["tty"] = True
learner.container_yml.set_env("RAW", 1)
learner.pod_yml["spec"]["hostname"] = "learner"

agents = exp.new_process_group("agents")
for i in range(2):
    agent = agents.new_process(f"agent-{i}", cmds=WORK, container_image="rl:1")
    agent.resource_request(cpu="500m", memory=5e8)
    agent.mount_nfs("10.0.0.2", "/data", "/mnt/data")
agents.node_selector("pool", "cpu")
agents.add_toleration(key="surreal", operator="Exists")
agents.restart_policy("Always")
agents.add_labels({"team": "rl"})
agents.mount_nfs("10.0.0.3", "/models", "/mnt/models", name="models")
agents.pod_yml.set_attr({"spec": {"priorityClassName": "low"}})
launched = cluster.launch(exp, dry_run="DRY_RUN" in os.environ)
