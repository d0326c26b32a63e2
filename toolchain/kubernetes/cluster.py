"""Brings the cluster up, takes it down, and reports its status."""

import contextlib
import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import psutil

from toolchain.kubernetes import (
    access,
    addons,
    api,
    build,
    control_plane,
    daemons,
    images,
    machine,
    node,
    packages,
    registry,
)
from toolchain.kubernetes.calls import ToolchainError
from toolchain.kubernetes.daemons import Daemon
from toolchain.kubernetes.layout import NODE_NAME, REGISTRY, Layout

Say = Callable[[str], None]
READY_WITHIN = 60
# `_clear` keeps pushed and built images, which take long to build, the files that lock the cluster, and the
# mark that tests started it, which `down` removes.
KEPT = ("registry", "docker", "lock", "users", "for-tests")
HOLDER = "node-namespace"
# If this file exists, `down` must also remove links, rules and settings of the machine.
OWNS_MACHINE = "owns-machine"


@dataclass(frozen=True)
class Status:
    """The state of the cluster: how to reach it, and which of its programs run."""

    ready: bool
    kubeconfig: str
    user_kubeconfig: str
    kubectl: str
    registry: str
    docker_host: str
    running: list[str]
    stopped: list[str]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


def up(layout: Layout, *, kwok_nodes: int = 0, say: Say) -> Status:
    """Start the programs of the cluster that do not run; wait until pods and DNS work."""
    _require_root()
    packages.ensure(say)
    programs = build.programs(say)
    with locked(layout):
        began = time.monotonic()
        if not _is_prepared(layout):
            _clear(layout)
            _prepare(layout)
        _start(layout, programs, kwok_nodes)
        say(f"cluster ready in {time.monotonic() - began:.1f} s; KUBECONFIG={layout.kubeconfig}")
        return status(layout)


def require_unused(layout: Layout) -> None:
    """Raise ToolchainError while test sessions hold a lock on the file `users`."""
    with contextlib.suppress(FileNotFoundError), layout.path("users").open() as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ToolchainError("tests are using this cluster; `down --force` takes it from them") from error


def down(layout: Layout, *, purge: bool = False, say: Say) -> None:
    """End every process and remove every mount, link, rule and file of it; images stay unless purged."""
    _require_root()
    with locked(layout):
        began = time.monotonic()
        _clear(layout)
        layout.for_tests.unlink(missing_ok=True)
        say(f"cluster down in {time.monotonic() - began:.1f} s")
    if purge:
        shutil.rmtree(layout.folder, ignore_errors=True)


def down_unless_used(layout: Layout, users: IO[str], *, say: Say) -> None:
    """Take down a cluster that tests started, unless another session has locked the file `users`."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if layout.for_tests.exists():
            down(layout, say=say)


def status(layout: Layout) -> Status:
    """Return the state of the cluster; ready means that the API server and the node both say so."""
    names = [path.stem for path in sorted(layout.path("run").glob("*.json"))]
    running = [name for name in names if daemons.running(layout, name)]
    ready = _is_prepared(layout) and bool(running) and _node_ready(layout)
    socket = registry.docker_socket(layout)
    return Status(
        ready=ready,
        kubeconfig=str(layout.kubeconfig),
        user_kubeconfig=str(layout.user_kubeconfig),
        kubectl=str(build.kubectl()),
        registry=REGISTRY,
        docker_host=f"unix://{socket}" if socket.exists() else os.environ.get("DOCKER_HOST", ""),
        running=running,
        stopped=[name for name in names if name not in running],
    )


def impossible() -> str:
    """Return why this machine cannot run a cluster, or ''; any other failure is a defect."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "the one-machine cluster needs root on Linux"
    if not build.is_possible():
        return "the one-machine cluster is not built, and there is no Go >= 1.26 to build it"
    if packages.missing() and not shutil.which("apt-get"):
        return f"the one-machine cluster needs {' '.join(packages.missing())}"
    return ""


@contextlib.contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """Allow one `up` or `down` at a time; a dead holder frees the lock by itself."""
    layout.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with layout.path("lock").open("w") as lock:
        deadline = time.monotonic() + 300
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise ToolchainError("another `up` or `down` has been at work for 5 minutes") from error
                time.sleep(0.2)
        yield


def _prepare(layout: Layout) -> None:
    machine.require_no_other_cluster()
    for folder in ("run", "logs"):
        layout.path(folder).mkdir(exist_ok=True)
    layout.path(OWNS_MACHINE).touch()
    access.make_certificates(layout)
    access.write_kubeconfigs(layout)
    node.configure(layout)
    addons.configure_dns(layout)
    registry.configure(layout)
    machine.prepare_kernel(layout)
    machine.make_cgroups(layout)
    machine.make_node_bridge()
    layout.path("prepared").write_text(_boot())


def _is_prepared(layout: Layout) -> bool:
    """Return whether the files are complete and of this boot, and the node's mount namespace exists."""
    with contextlib.suppress(FileNotFoundError):
        if layout.path("prepared").read_text() == _boot():
            never_started = not layout.path("run", f"{HOLDER}.json").exists()
            return never_started or daemons.running(layout, HOLDER) is not None
    return False


def _start(layout: Layout, programs: dict[str, Path], kwok_nodes: int) -> None:
    _serve(
        layout,
        [
            Daemon("etcd", control_plane.etcd(programs["etcd"], layout)),
            Daemon("registry", registry.registry(layout), registry.registry_ready),
            Daemon(HOLDER, node.namespace(layout), layout.path("run", "namespace-ready").exists),
        ],
    )
    api_server = control_plane.api_server(programs["kube-apiserver"], layout)
    containerd = _in_node(layout, node.containerd(layout))
    _serve(
        layout,
        [
            Daemon("containerd", containerd, node.containerd_socket(layout).exists),
            Daemon("kube-apiserver", api_server, lambda: api.is_ready(layout)),
        ],
    )
    images.push_own(programs["pause"])
    access.make_roles(layout)
    _serve(layout, _workers(layout, programs))
    if kwok_nodes:
        _serve(layout, [Daemon("kwok", addons.kwok(programs["kwok"], layout))])
        addons.add_nodes(layout, kwok_nodes)
    _await_pods_possible(layout)


def _serve(layout: Layout, wanted: list[Daemon]) -> None:
    """Start all daemons, then wait for each; restart one that was just ending when it was checked."""
    started = [daemon for daemon in wanted if daemons.start(layout, daemon)]
    for daemon in wanted:
        try:
            daemons.await_ready(layout, daemon, within=READY_WITHIN)
        except daemons.Ended:
            if daemon in started:
                raise
            daemons.start(layout, daemon)
            daemons.await_ready(layout, daemon, within=READY_WITHIN)


def _workers(layout: Layout, programs: dict[str, Path]) -> list[Daemon]:
    controller_manager = control_plane.controller_manager(programs["kube-controller-manager"], layout)
    kubelet = _in_node(layout, node.kubelet(programs["kubelet"], layout))
    workers = [
        Daemon("kube-controller-manager", controller_manager),
        Daemon("kube-scheduler", control_plane.scheduler(programs["kube-scheduler"], layout)),
        Daemon("kubelet", kubelet, lambda: _node_ready(layout)),
        Daemon("kube-proxy", node.proxy(programs["kube-proxy"], layout)),
        Daemon("coredns", addons.coredns(programs["coredns"], layout), addons.dns_ready),
    ]
    if daemons.running(layout, "dockerd") or not registry.machine_has_docker():
        argv = _in_node(layout, registry.dockerd(layout, node.containerd_socket(layout)))
        workers.append(Daemon("dockerd", argv, lambda: registry.docker_ready(layout)))
    return workers


def _in_node(layout: Layout, argv: tuple[str, ...]) -> tuple[str, ...]:
    holder = daemons.running(layout, HOLDER)
    if holder is None:
        raise ToolchainError(f"{HOLDER} ended: {daemons.last_words(layout, HOLDER)}")
    return node.inside(holder.pid, argv)


def _node_ready(layout: Layout) -> bool:
    conditions = api.get(layout, "node", NODE_NAME).get("status", {}).get("conditions", [])
    return any((condition["type"], condition["status"]) == ("Ready", "True") for condition in conditions)


def _await_pods_possible(layout: Layout) -> None:
    """Wait until pods can be created: controllers create the service account of a namespace first."""
    deadline = time.monotonic() + READY_WITHIN
    for namespace in ("default", access.ORDINARY):
        while not api.get(layout, "serviceaccount", "default", namespace):
            if time.monotonic() > deadline:
                raise ToolchainError(
                    "the controllers made no service account: see logs/kube-controller-manager.log"
                )
            time.sleep(0.05)


def _clear(layout: Layout) -> None:
    with_docker = layout.path("run", "dockerd.json").exists()
    for name in ("kubelet", "dockerd", "registry"):
        daemons.stop(layout, name, grace=5)
    daemons.end_all(layout.folder)
    if layout.path(OWNS_MACHINE).exists():
        machine.remove_links(with_docker=with_docker)
        machine.remove_rules(with_docker=with_docker)
        machine.restore_kernel(layout)
        machine.remove_cgroups(layout)
        node.remove_mount_points(layout)
    for path in layout.folder.iterdir():
        if path.name not in KEPT:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _require_root() -> None:
    if os.geteuid() != 0:
        raise ToolchainError(
            "the cluster needs root (mounts, links, iptables); use kind or a real cluster otherwise"
        )


def _boot() -> str:
    return str(psutil.boot_time())
