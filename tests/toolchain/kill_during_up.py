"""Kill the API server during real runs of `symphony up`, and compare state and cluster.

Usage: python -m tests.toolchain.kill_during_up FOLDER KILLS
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from symphony.backends.kubernetes.api.client import Client, client_of, path_of
from tests.sandbox import SYMPHONY, Sandbox, sandbox_in
from toolchain.kubernetes import cluster, daemons, images
from toolchain.kubernetes.layout import Layout
from toolchain.plugins import install

STACK = "killed"
PROCESSES = 10
KINDS = ("pods", "services", "configmaps")
Uids = dict[str, str]


def main() -> None:
    layout, kills = Layout(Path(sys.argv[1])), int(sys.argv[2])
    state = cluster.up(layout, say=lambda text: None)
    with tempfile.TemporaryDirectory(prefix="symphony-") as place:
        os.environ["PULUMI_HOME"] = f"{place}/pulumi-home"
        install()
        with sandbox_in(Path(place)) as sandbox:
            result = _Run(layout, sandbox, state.kubeconfig).all(kills)
    sys.stdout.write(json.dumps(result))


class _Run:
    """One experiment that is changed repeatedly."""

    def __init__(self, layout: Layout, sandbox: Sandbox, kubeconfig: str) -> None:
        self._layout, self._sandbox = layout, sandbox
        self._client: Client = client_of(kubeconfig, "")
        self._rng = random.Random(7)
        self._turn = 0
        settings = {"backend": "kubernetes", "image": images.BUSYBOX_IMAGE, "grace": "1", "patience": "20"}
        sandbox.config(STACK, **settings, **{"kubernetes:kubeconfig": kubeconfig})

    def all(self, kills: int) -> dict[str, Any]:
        """Return the facts that the test asserts, and figures for a reader."""
        ends: list[int] = []
        dropped: list[str] = []
        not_known = 0
        while len(ends) < kills and self._turn < 2 * kills + 2:
            before = self._recorded()
            code = self._disturbed()
            if code is None:  # it was too quick for us
                continue
            ends.append(code)
            sys.stderr.write(f"kill {len(ends)}: `up` ended with {code}\n")
            after, living = set(self._recorded().values()), self._living()
            dropped += [name for name, uid in living.items() if uid in before.values() and uid not in after]
            not_known += len(set(living.values()) - after)
        mended = self._sandbox.symphony("up", STACK, "-y", timeout=120)
        recorded, living = self._recorded(), self._living()
        running = [each["state"] for each in self._sandbox.processes(STACK).values()]
        gone = self._sandbox.symphony("delete", STACK, "-y", timeout=120)
        return {
            "ends": ends,
            "dropped": dropped,
            "not known for a while": not_known,
            "mended in": round(mended.seconds, 1),
            "equal": recorded == living,
            "objects": len(living),
            "running": running.count("running") == len(running) == PROCESSES,
            "deleted in": round(gone.seconds, 1),
            "left": [*self._living(), *self._recorded()],
        }

    def _disturbed(self) -> int | None:
        """Kill the API server during an `up` of a changed program; return its exit code."""
        self._turn += 1
        self._sandbox.write(self._program())
        before = self._living()
        process = self._sandbox.start([str(SYMPHONY), "up", STACK, "-y"])
        while self._living() == before and process.poll() is None:
            time.sleep(0.05)
        time.sleep(self._rng.random() * 1.5)
        killed = process.poll() is None and self._kill()
        cluster.up(self._layout, say=lambda text: None)
        try:
            out, err = process.communicate(timeout=150)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert "Traceback" not in out + err, out + err
        return process.returncode if killed else None

    def _program(self) -> str:
        """Return a program in which some processes stay, some change, some come and go."""
        lines = ['with Experiment("e") as e:']
        for number in range(PROCESSES):
            version = self._rng.randrange(3)
            name = f"p{number}" if number < PROCESSES - 3 else f"p{number}-{version}"
            lines.append(f'    p = e.new_process("{name}", command="sleep", args=["{1000 + version}"])')
            lines.append(f'    p.binds("s{number}")')
        return "\n".join(lines)

    def _kill(self) -> bool:
        server = daemons.running(self._layout, "kube-apiserver")
        assert server is not None
        server.kill()
        server.wait(10)
        return True

    def _living(self) -> Uids:
        """Return the objects of the experiment that are not being deleted."""
        result: Uids = {}
        for kind in KINDS:
            for each in self._client.get(path_of(kind, STACK)).get("items", []):
                metadata = each["metadata"]
                if "deletionTimestamp" not in metadata and "symphony/experiment" in metadata.get(
                    "labels", {}
                ):
                    result[f"{kind}/{metadata['name']}"] = metadata["uid"]
        return result

    def _recorded(self) -> Uids:
        """Return the objects in the state of the stack."""
        if not any(each.endswith(f"/{STACK}") for each in self._sandbox.stacks()):
            return {}
        exported = self._sandbox.pulumi("stack", "export", "--stack", STACK).json
        result: Uids = {}
        for each in exported["deployment"].get("resources", []):
            kind = f"{each['type'].rpartition(':')[2].lower()}s"
            if each["type"].startswith("kubernetes:") and kind in KINDS:
                metadata = each["outputs"]["metadata"]
                result[f"{kind}/{metadata['name']}"] = metadata["uid"]
        return result


if __name__ == "__main__":
    main()
