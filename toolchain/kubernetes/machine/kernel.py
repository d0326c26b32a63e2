"""Saves and restores kernel settings that the cluster changes; makes and removes control groups."""

import contextlib
import hashlib
import json
from pathlib import Path

from toolchain.kubernetes.calls import succeeds
from toolchain.kubernetes.layout import Layout

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


def prepare(layout: Layout) -> None:
    """Save the settings, then enable forwarding: if dockerd does it, it closes the FORWARD chain."""
    if not (PROC / "net/bridge").exists():
        succeeds(["modprobe", "br_netfilter"])
    kept = {name: (PROC / name).read_text().strip() for name in SETTINGS if (PROC / name).exists()}
    layout.path("kernel.json").write_text(json.dumps(kept))
    for name in ("net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"):
        with contextlib.suppress(FileNotFoundError):
            (PROC / name).write_text("1")


def restore(layout: Layout) -> None:
    """Restore the settings that `prepare` saved."""
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
