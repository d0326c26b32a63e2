"""A user name as the prefix of experiments, the folder of saved experiments, and a saved experiment."""

import json
import os
from pathlib import Path

from symphony.engine import Cluster, ExperimentSpec, SymphonyConfig

Path("config.yaml").write_text("username: ada\nmujoco: 150\n")
SymphonyConfig().reset()
SymphonyConfig().register_handler("mujoco", lambda version: f"mjpro{version}")
SymphonyConfig().load_config_file("config.yaml")
SymphonyConfig().set_experiment_folder(str(Path.cwd() / "experiments"))
SymphonyConfig().update({"username": "ada"})

cluster = Cluster.new(os.environ["CLUSTER"])
if Path("kept.yaml").exists():
    exp = ExperimentSpec.load_yaml("kept.yaml")
else:
    exp = cluster.new_experiment("kept")
    sim = exp.new_process("sim", cmds=["echo $ENGINE", "sleep 3600"], container_image="sim:1")
    sim.set_env("ENGINE", vars(SymphonyConfig())["mujoco"])
    sim.binds("state")
    group = exp.new_process_group("agents")
    group.new_process("agent", cmds=["echo agent", "sleep 3600"], container_image="rl:1").connects("state")
    group.mount_shared_memory()
    exp.dump_yaml("kept.yaml")
    exp.dump_json("kept.json")
assert exp.dump_dict() == json.loads(Path("kept.json").read_text())
assert exp.name == "ada-kept" == cluster.prefix_username("kept")
launched = cluster.launch(exp, dry_run="DRY_RUN" in os.environ)
