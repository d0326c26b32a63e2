"""Every messaging pattern of caraml: the programs of examples/zmq, one process for each end of a socket.

On Kubernetes, `up` builds their image and pushes it to the registry in symphony:registry; its base
is the setting zmq:base, by default python:3.11-slim.
"""

import pulumi

from symphony import Experiment, Image

PAIRS = {
    "queue": ("push_pull.py", "pull", "push"),
    "echo": ("request_reply.py", "server", "client"),
    "results": ("acknowledged.py", "receiver", "sender"),
    "news": ("publish_subscribe.py", "publisher", "subscriber"),
    "batches": ("data_fetcher.py", "server", "fetcher"),
}

base = pulumi.Config("zmq").get("base") or "python:3.11-slim"
image = Image("zmq", dockerfile="examples/Dockerfile", build_args={"BASE": base, "FOLDER": "examples/zmq"})

with Experiment("zmq", start_dir="examples/zmq", image=image) as experiment:
    for service, (program, binder, connector) in PAIRS.items():
        binding = experiment.new_process(
            f"{service}-{binder}", command="python", args=["-u", program, binder]
        )
        binding.binds(service)
        connecting = experiment.new_process(
            f"{service}-{connector}", command="python", args=["-u", program, connector]
        )
        # A process that ends soon must not end before its peer has begun.
        connecting.connects(service, wait=True)

    proxy = experiment.new_process("proxy", command="python", args=["-u", "proxy.py", "proxy"])
    proxy.binds("front", "back")
    experiment.new_process("proxy-server", command="python", args=["-u", "proxy.py", "server"]).connects(
        "back"
    )
    experiment.new_process("proxy-client", command="python", args=["-u", "proxy.py", "client"]).connects(
        "front"
    )
