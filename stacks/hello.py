"""The smallest experiment: one process serves, two greet it. Run it with `symphony up hello`."""

from symphony import Experiment

with Experiment("hello") as experiment:
    server = experiment.new_process("server", command="python", args=["-u", "examples/hello/server.py"])
    server.binds("greetings")

    for name in ("ada", "grace"):
        guest = experiment.new_process(name, command="python", args=["-u", "examples/hello/guest.py", name])
        guest.connects("greetings")
