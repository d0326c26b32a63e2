"""Lets the stacks of a timed project run on the cluster."""

from __future__ import annotations

import os
import uuid

import yaml

from symphony.backends.kubernetes import plugin
from tests.benchmarks.projects import Project
from toolchain.kubernetes.fixtures import Access
from toolchain.plugins import install


def add_plugin(made: Project, name: str = plugin.KUBERNETES) -> None:
    """The plugin in the project's own Pulumi home."""
    before = os.environ.get("PULUMI_HOME")
    os.environ["PULUMI_HOME"] = made.env["PULUMI_HOME"]
    try:
        install(name)
    finally:
        os.environ.pop("PULUMI_HOME")
        if before is not None:
            os.environ["PULUMI_HOME"] = before


def configure(made: Project, stack: str, cluster: Access, image: str, **where: str) -> str:
    """The settings of a stack on the cluster; its namespace, which nobody else has.

    where: how the cluster is found, if not by its kubeconfig.
    """
    namespace = f"bench-{uuid.uuid4().hex[:8]}"
    settings = {
        "symphony:backend": "kubernetes",
        "symphony:image": image,
        "symphony:grace": "0",
        "symphony:namespace": namespace,
        **(where or {"kubernetes:kubeconfig": cluster.kubeconfig}),
    }
    (made.folder / "stacks" / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": settings}))
    return namespace
