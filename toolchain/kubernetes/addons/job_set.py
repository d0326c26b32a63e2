"""The real JobSet controller beside a cluster that runs, with its definitions."""

from __future__ import annotations

import base64
import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from toolchain.kubernetes import build, daemons
from toolchain.kubernetes.api import Api
from toolchain.kubernetes.calls import ToolchainError
from toolchain.kubernetes.control_plane import certificates
from toolchain.kubernetes.daemons import Daemon
from toolchain.kubernetes.layout import Layout

NAME = "jobset"
READY_WITHIN = 60
GONE_WITHIN = 60
_HOST, _WEBHOOKS, _HEALTH = "127.0.0.1", 22381, 22382
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
# Its own deployment asks about pods of JobSets only: those of others start without it.
_OF_A_JOB_SET = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}


@contextlib.contextmanager
def installed(layout: Layout) -> Iterator[None]:
    """JobSets are served, judged and kept for the length of the block; nothing of it stays behind."""
    api = Api(layout)
    definition, hooks = _definition(), _hooks(layout)
    place = f"{_DEFINITIONS}/{definition['metadata']['name']}"
    try:
        api.apply(place, definition)
        _await(lambda: _is_served(api.get(place)), READY_WITHIN, "the API server does not serve JobSets")
        _configure(layout)
        daemon = Daemon(NAME, _argv(layout), _is_ready)
        daemons.start(layout, daemon)
        daemons.await_ready(layout, daemon, within=READY_WITHIN)
        for path, hook in hooks.items():
            api.apply(path, hook)
        yield
    finally:
        for path in [*hooks, place]:
            api.delete(path)
        _await(lambda: api.get(place) is None, GONE_WITHIN, "the definition of JobSet does not go")
        daemons.stop(layout, NAME, grace=5)
        layout.path("run", f"{NAME}.json").unlink(missing_ok=True)
        shutil.rmtree(layout.path(NAME), ignore_errors=True)


def _definition() -> dict[str, Any]:
    return yaml.safe_load(_published("jobset.x-k8s.io_jobsets.yaml").read_text())


def _hooks(layout: Layout) -> dict[str, dict[str, Any]]:
    """What the API server asks it, where there is no Service through which it could."""
    authority = base64.b64encode(layout.certificate("ca").read_bytes()).decode()
    result: dict[str, dict[str, Any]] = {}
    for manifest in yaml.safe_load_all(_published("manifests.yaml").read_text()):
        manifest["metadata"]["name"] = name = f"jobset-{manifest['metadata']['name']}"
        for hook in manifest["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            url = f"https://{_HOST}:{_WEBHOOKS}{path}"
            hook["clientConfig"] = {"url": url, "caBundle": authority}
            if path.endswith("-pod"):
                hook["objectSelector"] = _OF_A_JOB_SET
        result[f"{_ADMISSION}/{manifest['kind'].lower()}s/{name}"] = manifest
    return result


def _configure(layout: Layout) -> None:
    """Its certificate, under the names that it looks for, and its settings."""
    folder = layout.path(NAME)
    folder.mkdir(exist_ok=True)
    certificates.issue(layout, certificates.Certificate(NAME, NAME, hosts=(f"IP:{_HOST}",)))
    layout.certificate(NAME).rename(folder / "tls.crt")
    layout.key(NAME).rename(folder / "tls.key")
    settings = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": _HOST, "port": _WEBHOOKS, "certDir": str(folder)},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{_HOST}:{_HEALTH}"},
    }
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))


def _argv(layout: Layout) -> tuple[str, ...]:
    program, settings = _published(NAME), layout.path(NAME, "settings.yaml")
    return str(program), f"--kubeconfig={layout.kubeconfig}", f"--config={settings}"


def _published(name: str) -> Path:
    return build.cached(build.JOB_SET) / name


def _is_served(definition: dict[str, Any] | None) -> bool:
    every: list[dict[str, str]] = (definition or {}).get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in every)


def _is_ready() -> bool:
    """Whether it says that its webhooks answer."""
    return daemons.answers(f"{_HOST}:{_HEALTH}", "/readyz")


def _await(done: Callable[[], bool], within: float, what: str) -> None:
    deadline = time.monotonic() + within
    while not done():
        if time.monotonic() > deadline:
            raise ToolchainError(f"{what} after {within:g} s")
        time.sleep(0.05)
