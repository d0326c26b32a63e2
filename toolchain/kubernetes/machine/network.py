"""Creates the bridge with the node's address, and removes all links of the cluster."""

import json
import time

from toolchain.kubernetes.calls import ToolchainError, run
from toolchain.kubernetes.layout import NODE_ADDRESS, NODE_BRIDGE, POD_BRIDGE

_REMOVED_WITHIN = 10.0


def require_free() -> None:
    """Raise ToolchainError if another cluster runs here: both would use the same addresses."""
    if NODE_BRIDGE in _links():
        raise ToolchainError(
            f"another cluster uses this machine: the link {NODE_BRIDGE} exists. Take it down first "
            f"(`down --folder` where it was brought up; if that is gone: ip link delete {NODE_BRIDGE})"
        )


def make_node_bridge() -> None:
    """Create a bridge without ports for the node's address; not every kernel has dummy links."""
    run(["ip", "link", "add", NODE_BRIDGE, "type", "bridge"])
    run(["ip", "address", "replace", f"{NODE_ADDRESS}/32", "dev", NODE_BRIDGE])
    run(["ip", "link", "set", NODE_BRIDGE, "up"])


def remove_links(*, with_docker: bool) -> None:
    """Delete the cluster's bridges once the kernel has removed the links of ended pods."""
    bridges = (NODE_BRIDGE, POD_BRIDGE, *(("docker0",) if with_docker else ()))
    deadline = time.monotonic() + _REMOVED_WITHIN
    while ports := [name for name, master in _links().items() if master in bridges]:
        if time.monotonic() > deadline:
            raise ToolchainError(f"links of ended pods stay: {', '.join(ports)}")
        time.sleep(0.1)
    for name in _links().keys() & set(bridges):
        run(["ip", "link", "delete", name])


def _links() -> dict[str, str]:
    """Return every link of the machine and the bridge it is a port of."""
    return {
        link["ifname"]: link.get("master", "") for link in json.loads(run(["ip", "-json", "link", "show"]))
    }
