"""Every pattern of caraml, pair by pair: the programs of examples/zmq, each end a process."""

from symphony import Experiment

PAIRS = {
    "queue": ("push_pull.py", "pull", "push"),
    "echo": ("request_reply.py", "server", "client"),
    "results": ("acknowledged.py", "receiver", "sender"),
    "news": ("publish_subscribe.py", "publisher", "subscriber"),
    "batches": ("data_fetcher.py", "server", "fetcher"),
}

with Experiment("zmq", start_dir="examples/zmq") as experiment:
    for service, (program, binder, connector) in PAIRS.items():
        binding = experiment.new_process(
            f"{service}-{binder}", command="python", args=["-u", program, binder]
        )
        binding.binds(service)
        connecting = experiment.new_process(
            f"{service}-{connector}", command="python", args=["-u", program, connector]
        )
        connecting.connects(service)

    proxy = experiment.new_process("proxy", command="python", args=["-u", "proxy.py", "proxy"])
    proxy.binds("front", "back")
    experiment.new_process("proxy-server", command="python", args=["-u", "proxy.py", "server"]).connects(
        "back"
    )
    experiment.new_process("proxy-client", command="python", args=["-u", "proxy.py", "client"]).connects(
        "front"
    )
