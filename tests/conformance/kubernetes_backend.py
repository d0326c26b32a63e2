"""A Kubernetes cluster as a backend of the conformance suite; processes are containers."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conformance.backend import Backend
from tests.sandbox import Sandbox, wait_for
from toolchain.kubernetes import access
from toolchain.kubernetes.fixtures import Access
from toolchain.kubernetes.layout import Layout


class KubernetesBackend(Backend):
    name = "kubernetes"
    remembers_starts = False
    patience = 3.0
    crowd = 12
    notify = "sh -c 'echo notified $NAME $STATE $EXIT'"

    def __init__(self, sandbox: Sandbox, cluster: Access) -> None:
        super().__init__(sandbox)
        self.cluster = cluster
        # Test sessions share the cluster.
        self._own = uuid.uuid4().hex[:6]

    def settings(self, stack: str) -> Mapping[str, str]:
        return {
            "backend": "kubernetes",
            "namespace": self._namespace(stack),
            "image": self.cluster.python_image,
            "supervisorImage": self.cluster.python_image,
            "grace": "1",
            "patience": "20",
            "kubernetes:kubeconfig": self.cluster.kubeconfig,
        }

    def identities(self, stack: str) -> dict[str, list[str]]:
        result: dict[str, list[str]] = {}
        for pod in self._pods(stack):
            group = pod["metadata"]["annotations"].get("symphony/group")
            for each in pod["status"].get("containerStatuses", []):
                if "running" in each["state"]:
                    path = f"{group}/{each['name']}" if group else each["name"]
                    result.setdefault(path, []).append(each["containerID"])
        return result

    def requested_starts(self, stack: str) -> int:
        return sum(len(pod["spec"]["containers"]) for pod in self._pods(stack))

    def shares_fate(self, path: str, paths: set[str]) -> set[str]:
        group = path.rpartition("/")[0]
        return {each for each in paths if each == path or (group and each.rpartition("/")[0] == group)}

    def kill(self, stack: str, path: str, number: signal.Signals) -> None:
        """Kill it from this machine: inside its namespace, the first process ignores SIGKILL."""
        if not self.cluster.registry:
            pytest.skip("the processes of another cluster are not on this machine")
        (container,) = self.identities(stack)[path]
        os.kill(_first_process(container.rpartition("/")[2]), number)

    def lose(self, stack: str, path: str) -> None:
        pod = self._pod(stack, path.partition("/")[0])
        self.kubectl("delete", "pod", pod, "-n", self._namespace(stack), "--now", "--timeout=30s")

    def vanish(self, stack: str) -> None:
        self.kubectl("delete", "namespace", self._namespace(stack), "--timeout=60s")

    def end_supervisor(self, stack: str) -> None:
        pods = ("pods", "-l", "symphony/supervisor", "-n", self._namespace(stack))
        self.kubectl("delete", *pods, "--now", "--timeout=30s")

    def notified(self, stack: str) -> list[str]:
        pods = ("-l", "symphony/supervisor", "-n", self._namespace(stack))
        return [line for line in self.kubectl("logs", *pods).splitlines() if line.startswith("notified ")]

    def leftovers(self, stack: str) -> list[str]:
        namespace = self._namespace(stack)
        result = self.kubectl("get", "namespace", namespace, "--ignore-not-found", "-o", "name").split()
        files = [str(file) for file in (self.sandbox.home / "experiments").glob("*")]
        return [*result, *[file for file in files if Path(file).name == namespace]]

    def arguments(self) -> str:
        """Return the containers' command lines, from this machine, and the cluster's pods and events."""
        here = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
        result = self.kubectl("get", "pods,events,configmaps,services", "--all-namespaces", "-o", "json")
        return "\n".join([result, *(" ".join(words) for words in here)])

    def disguises(self, secret: str) -> list[str]:
        return [secret, base64.b64encode(secret.encode()).decode().rstrip("=")]

    def kubectl(self, *words: str) -> str:
        argv = [self.cluster.kubectl, f"--kubeconfig={self.cluster.kubeconfig}", *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=90, check=True).stdout

    def forget(self, stack: str) -> None:
        """Remove all that a failed test left in the cluster."""
        self.kubectl("delete", "namespace", self._namespace(stack), "--ignore-not-found", "--wait=false")

    def _pods(self, stack: str) -> list[dict[str, Any]]:
        processes = ("-l", "!symphony/supervisor", "-n", self._namespace(stack))
        return json.loads(self.kubectl("get", "pods", *processes, "-o", "json"))["items"]

    def _pod(self, stack: str, name: str) -> str:
        return name

    def _namespace(self, stack: str) -> str:
        return f"{stack.replace('.', '-')}-{self._own}"


class RoleBackend(KubernetesBackend):
    """The same with only the Role of `symphony rbac`, in namespaces created by an administrator."""

    _EVERY = "pods,services,configmaps,secrets,jobs,serviceaccounts,roles,rolebindings"
    _OURS = ("-l", "symphony/experiment")

    def __init__(self, sandbox: Sandbox, cluster: Access) -> None:
        if not cluster.user_kubeconfig:
            pytest.skip("SYMPHONY_TEST_KUBECONFIG names a cluster without an ordinary user of ours")
        super().__init__(sandbox, cluster)
        self._made: set[str] = set()

    def settings(self, stack: str) -> Mapping[str, str]:
        namespace = self._namespace(stack)
        if namespace not in self._made:
            self.kubectl("create", "namespace", namespace)
            self.kubectl("-n", namespace, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
            access.grant(Layout.default(), access.ORDINARY, namespace)
            self._made.add(namespace)
        mine = {"createNamespace": "false", "kubernetes:kubeconfig": self.cluster.user_kubeconfig}
        return {**super().settings(stack), **mine}

    def vanish(self, stack: str) -> None:
        self.kubectl("delete", self._EVERY, "-n", self._namespace(stack), *self._OURS, "--timeout=60s")

    def leftovers(self, stack: str) -> list[str]:
        namespace = self._namespace(stack)
        result = self.kubectl("get", self._EVERY, "-n", namespace, *self._OURS, "-o", "name").split()
        files = [file.name for file in (self.sandbox.home / "experiments").glob("*")]
        return [*result, *[name for name in files if name == namespace]]

    def forget(self, stack: str) -> None:
        self.kubectl("delete", "namespace", self._namespace(stack), "--ignore-not-found", "--timeout=60s")
        self._made.discard(self._namespace(stack))

    def _pod(self, stack: str, name: str) -> str:
        return f"{stack.replace('.', '-')}-{name}"


def _first_process(container: str) -> int:
    """Return the process of this machine that is pid 1 in the container."""

    def look() -> int | None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if container not in (folder / "cgroup").read_text():
                    continue
                status = (folder / "status").read_text()
            except OSError:
                continue
            numbers = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
            if numbers[-1] == "1":
                return int(folder.name)
        return None

    return wait_for(look, 10, f"a process of container {container[:12]}")
