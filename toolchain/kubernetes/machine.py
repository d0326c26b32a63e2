"""Changes this machine for the cluster and reverts that: kernel settings, control groups, links, iptables."""

import contextlib
import hashlib
import json
import shlex
import time
from pathlib import Path

from toolchain.kubernetes.calls import ToolchainError, run, succeeds
from toolchain.kubernetes.layout import NODE_ADDRESS, NODE_BRIDGE, POD_BRIDGE, Layout

# The settings that kubelet, kube-proxy, dockerd and this cluster write.
SETTINGS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/bridge/bridge-nf-call-ip6tables",
    "net/bridge/bridge-nf-call-iptables",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/ip_forward",
    "net/netfilter/nf_conntrack_max",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
PROC = Path("/proc/sys")
CGROUPS = Path("/sys/fs/cgroup")


def prepare_kernel(layout: Layout) -> None:
    """Save the settings, then enable forwarding: if dockerd does it, it closes the FORWARD chain."""
    if not (PROC / "net/bridge").exists():
        succeeds(["modprobe", "br_netfilter"])
    kept = {name: (PROC / name).read_text().strip() for name in SETTINGS if (PROC / name).exists()}
    layout.path("kernel.json").write_text(json.dumps(kept))
    for name in ("net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"):
        with contextlib.suppress(FileNotFoundError):
            (PROC / name).write_text("1")


def restore_kernel(layout: Layout) -> None:
    """Restore the settings that `prepare_kernel` saved."""
    with contextlib.suppress(FileNotFoundError):
        for name, value in json.loads(layout.path("kernel.json").read_text()).items():
            if (PROC / name).read_text().strip() != value:
                (PROC / name).write_text(value)


def cgroup(layout: Layout) -> str:
    """Return the control group under which all pods and builds of this cluster run."""
    return f"/symphony-{hashlib.sha256(str(layout.folder).encode()).hexdigest()[:8]}"


def make_cgroups(layout: Layout) -> None:
    """Create the group in every hierarchy: kubelet requires its root to exist."""
    for hierarchy in _hierarchies():
        (hierarchy / cgroup(layout)[1:]).mkdir(exist_ok=True)
        for switch in (hierarchy, hierarchy / cgroup(layout)[1:]):  # the one hierarchy of cgroup v2
            if (switch / "cgroup.subtree_control").exists() and hierarchy == CGROUPS:
                (switch / "cgroup.subtree_control").write_text("+cpu +cpuset +memory +pids +hugetlb")


def remove_cgroups(layout: Layout) -> None:
    """Remove the groups in every hierarchy, innermost first; raise OSError if one still has processes."""
    for group in [hierarchy / cgroup(layout)[1:] for hierarchy in _hierarchies()]:
        if group.is_dir():
            for inner in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
                inner.rmdir()
            group.rmdir()


def _hierarchies() -> list[Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


_REMOVED_WITHIN = 10.0


def require_no_other_cluster() -> None:
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


_OURS = ("KUBE-", "CNI-")
_DOCKER = ("DOCKER",)


def remove_rules(*, with_docker: bool) -> None:
    """Remove the chains and rules of the cluster for IPv4 and IPv6."""
    prefixes = _OURS + (_DOCKER if with_docker else ())
    bridges = (NODE_BRIDGE, POD_BRIDGE, *(("docker0",) if with_docker else ()))
    for family in ("iptables", "ip6tables"):
        script = _removal(run([f"{family}-save"]), prefixes, bridges)
        if script:
            run([f"{family}-restore", "--noflush", "--wait=10"], stdin=script)


def _removal(saved: str, prefixes: tuple[str, ...], bridges: tuple[str, ...]) -> str:
    """Return the input for iptables-restore that removes these chains and bridges' rules, or ''."""
    script: list[str] = []
    for table in _tables(saved):
        chains = [line[1:].split()[0] for line in table if line.startswith(":")]
        doomed = [chain for chain in chains if chain.startswith(prefixes)]
        rules = [line for line in table if line.startswith("-A ") and _affects(line, doomed, bridges)]
        if doomed or rules:
            deletions = [line.replace("-A ", "-D ", 1) for line in rules]
            emptied = [f"-F {chain}" for chain in doomed]
            script += [table[0], *deletions, *emptied, *(f"-X {chain}" for chain in doomed), "COMMIT"]
    return "\n".join(script) + "\n" if script else ""


def _affects(rule: str, doomed: list[str], bridges: tuple[str, ...]) -> bool:
    """Return whether a rule outside the chains to delete jumps into one of them or names our bridges."""
    words = shlex.split(rule)
    return words[1] not in doomed and any(word in doomed or word in bridges for word in words[2:])


def _tables(saved: str) -> list[list[str]]:
    tables: list[list[str]] = []
    for line in saved.splitlines():
        if line.startswith("*"):
            tables.append([line])
        elif line.startswith((":", "-A ")):
            tables[-1].append(line)
    return tables
