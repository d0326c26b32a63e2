"""Processes that share a pod: declared by the group or added to it, and the settings of the group."""

import os

from symphony.engine import Cluster, ProcessGroupSpec, ProcessSpec

cluster = Cluster.new(os.environ["CLUSTER"])
exp = cluster.new_experiment("grouped")
IMAGE = "rl:1"

eval_ = exp.new_process("eval", cmds=["echo eval", "sleep 3600"], container_image=IMAGE)
nonagent = exp.new_process_group("nonagent", preamble_cmds=["export FROM_GROUP=yes"], start_dir="/")
hello = ["echo $FROM_GROUP $DEVICE $(pwd)", "sleep 3600"]
learner = nonagent.new_process("learner", cmds=hello, container_image=IMAGE)
learner.set_env("DEVICE", "gpu")
replay = ProcessSpec("replay", cmds=["echo $DEVICE", "sleep 3600"], container_image="rl:2", standalone=False)
nonagent.add_process(replay)
nonagent.add_processes([ProcessSpec("logger", cmds=["echo logger", "sleep 3600"], container_image=IMAGE)])
for process in nonagent.list_processes():
    process.connects("params")
learner.binds("params")
nonagent.set_env("DEVICE", "cpu")  # the learner keeps its own
nonagent.set_envs({"THREADS": 4})
nonagent.image_pull_policy("IfNotPresent")
nonagent.mount_shared_memory()

agents = [ProcessGroupSpec(f"agents-{i}") for i in range(2)]
exp.add_process_groups(agents[:1])
exp.add_process_group(agents[1])
for i, group in enumerate(agents):
    agent = group.new_process("agent", cmds=[f"echo agent {i}", "sleep 3600"], container_image=IMAGE)
    agent.set_env("RANK", i)
exp.add_process(ProcessSpec("tb", cmds=["echo tb", "sleep 3600"], container_image="tb:1", standalone=True))
exp.add_processes([ProcessSpec("db", cmds=["echo db", "sleep 3600"], container_image=IMAGE)])
for process in exp.list_all_processes():
    process.set_env("RUN", "r1")

assert exp.get_process("eval") is eval_
assert nonagent.get_process("replay") is replay
assert exp.get_process_group("nonagent") is nonagent
assert [each.name for each in exp.list_processes()] == ["eval", "tb", "db"]
assert [each.name for each in exp.list_process_groups()] == ["nonagent", "agents-0", "agents-1"]
assert len(exp.list_all_processes()) == 8
launched = cluster.launch(exp, dry_run="DRY_RUN" in os.environ)
