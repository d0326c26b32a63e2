"""The node: a private mount namespace, containerd, kubelet, kube-proxy and their files."""

import contextlib
import json
from pathlib import Path
from typing import Any

from toolchain.kubernetes import machine
from toolchain.kubernetes.layout import (
    CLUSTER_DOMAIN,
    NODE_ADDRESS,
    NODE_NAME,
    PAUSE_IMAGE,
    POD_BRIDGE,
    POD_RANGE,
    Layout,
)

# Folders that programs of the node require; in its mount namespace they are folders of the cluster.
REQUIRED_FOLDERS = (
    "/etc/docker",
    "/run/containerd",
    "/run/docker",
    "/run/mount",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
)


def namespace(layout: Layout) -> tuple[str, ...]:
    """Return the command line that holds a mount namespace; the node's mounts end with its last process."""
    binds = [f"mount -n --bind {_own(layout, folder)} {folder}" for folder in REQUIRED_FOLDERS]
    script = " && ".join(
        [*binds, "mount -n --make-rshared /", f"touch {layout.path('run', 'namespace-ready')}"]
    )
    return ("unshare", "--mount", "--propagation=slave", "sh", "-c", f"{script} && exec sleep infinity")


def inside(holder: int, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command line that runs in the mount namespace of process `holder`."""
    return ("nsenter", f"--mount=/proc/{holder}/ns/mnt", *argv)


def containerd(layout: Layout) -> tuple[str, ...]:
    return ("containerd", f"--config={layout.path('containerd.toml')}", "--log-level=warn")


def containerd_socket(layout: Layout) -> Path:
    return layout.path("containerd.sock")


def kubelet(program: Path, layout: Layout) -> tuple[str, ...]:
    return (
        str(program),
        f"--config={layout.path('kubelet.yaml')}",
        f"--kubeconfig={layout.path('kubeconfigs', 'kubelet.yaml')}",
        f"--root-dir={layout.path('kubelet')}",
        f"--cert-dir={layout.path('kubelet', 'pki')}",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={NODE_ADDRESS}",
    )


def proxy(program: Path, layout: Layout) -> tuple[str, ...]:
    return (str(program), f"--config={layout.path('kube-proxy.yaml')}", f"--hostname-override={NODE_NAME}")


def configure(layout: Layout) -> None:
    """Write the configuration of the three programs, and create the mount points of the namespace."""
    missing = [folder for folder in REQUIRED_FOLDERS if not Path(folder).exists()]
    layout.path("mount-points.json").write_text(json.dumps(missing))
    for folder in REQUIRED_FOLDERS:
        Path(folder).mkdir(parents=True, exist_ok=True)
        _own(layout, folder).mkdir(parents=True)
    layout.path("containerd.toml").write_text(_containerd_toml(layout))
    layout.path("kubelet.yaml").write_text(json.dumps(_kubelet_config(layout)))
    layout.path("kube-proxy.yaml").write_text(json.dumps(_proxy_config(layout)))
    layout.path("cni").mkdir(exist_ok=True)
    layout.path("cni", "10-symphony.conflist").write_text(json.dumps(_pod_network(layout)))


def remove_mount_points(layout: Layout) -> None:
    """Remove the mount points that `configure` created."""
    with contextlib.suppress(FileNotFoundError):
        for folder in json.loads(layout.path("mount-points.json").read_text()):
            with contextlib.suppress(OSError):  # another program has come to use it
                Path(folder).rmdir()


def _containerd_toml(layout: Layout) -> str:
    cri = '[plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{layout.path("containerd")}"
state = "{layout.path("containerd-state")}"
disabled_plugins = ["io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = "{containerd_socket(layout)}"
{cri}]
sandbox_image = "{PAUSE_IMAGE}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
stream_server_address = "127.0.0.1"
{cri}.cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{layout.path("cni")}"
{cri}.containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def _kubelet_config(layout: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "healthzBindAddress": "127.0.0.1",
        "readOnlyPort": 0,
        "tlsCertFile": str(layout.certificate("kubelet")),
        "tlsPrivateKeyFile": str(layout.key("kubelet")),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.certificate("ca"))},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{containerd_socket(layout)}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": machine.cgroup(layout),
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDomain": CLUSTER_DOMAIN,
        "clusterDNS": [NODE_ADDRESS],
        "podLogsDir": str(layout.path("pod-logs")),
        "volumePluginDir": str(layout.path("kubelet-plugins")),
        # A disk filled by other work must not evict the pods of a test.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "maxPods": 250,
        "serializeImagePulls": False,
        "syncFrequency": "10s",
    }


def _proxy_config(layout: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(layout.path("kubeconfigs", "kube-proxy.yaml"))},
        "clusterCIDR": POD_RANGE,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "nodePortAddresses": [f"{NODE_ADDRESS}/32"],
        # The defaults raise kernel limits of the whole machine, which would stay after `down`.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"localhostNodePorts": False, "minSyncPeriod": "100ms"},
    }


def _pod_network(layout: Layout) -> dict[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": POD_BRIDGE,
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(layout.path("cni-addresses")),
            "ranges": [[{"subnet": POD_RANGE}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "1.0.0", "name": "symphony", "plugins": [bridge]}


def _own(layout: Layout, folder: str) -> Path:
    return layout.path("insisted", folder.strip("/").replace("/", "-"))
