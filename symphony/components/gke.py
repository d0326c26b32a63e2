"""GkeCluster: a cluster on GKE with its node pools, service account and image registry."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import pulumi

from symphony.components.program_run import report_facts, require_root, run_error
from symphony.components.usage_errors import as_usage_error
from symphony.placement import machines
from symphony.placement.machines import GIB, Machine
from symphony.placement.pool import EFFECTS, GPU_TAINT, SPOT_LABEL, Pool, Taint, faults, unknown_machines
from symphony.plan.problems import PlanError, Problem
from symphony.spec.location import Location, caller
from symphony.spec.setting import (
    FLAG,
    Checked,
    Converter,
    all_of,
    convert,
    instance_of,
    of_type,
    optional,
    required,
    setting,
    strict_text,
    texts,
    variables,
)

if TYPE_CHECKING:
    import pulumi_gcp

_KEY_VARIABLES = ("GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON",
                  "GOOGLE_OAUTH_ACCESS_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS")  # fmt: skip
_LOGIN_FILE = Path(".config/gcloud/application_default_credentials.json")
# This file contains "Google" on Google's machines, which have credentials by default.
_VENDOR = Path("/sys/class/dmi/id/product_name")
# The minimal role of the nodes' account: it may write logs and metrics.
_NODE_ROLE = "roles/container.defaultNodeServiceAccount"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_LEGAL_NAME = "use at most 40 lower-case letters, digits and inner hyphens, a letter first"
# Google names every region after a point of the compass.
_LOCATION = re.compile(r"[a-z]+-(central|north|south|(north|south)?(east|west))[0-9]+(-[a-z])?")
_EFFECTS = {kubernetes: google for google, kubernetes in EFFECTS.items()}
_NODE_ACCOUNT = 30
_DISK_GB = (10, 65536)
_Channel = Literal["RAPID", "REGULAR", "STABLE"]
_COUNT: Converter = of_type(int)
_SIZE: Converter = optional(of_type(Annotated[float, msgspec.Meta(gt=0)]))


@dataclass(frozen=True)
class NodePool(Checked):
    """A pool of identical machines in a GkeCluster.

    Args:
        name: At most 40 lower-case letters, digits and inner hyphens, a letter first; place() takes it.
        machine_type: A machine type of Compute Engine.
        accelerator: The type and number of GPUs of a machine; not needed if the machine type includes GPUs.
        min: The minimum number of machines, in all zones together.
        max: The maximum number of machines, in all zones together.
        spot: Whether to use spot machines, which Google may take away.
        disk_gb: The size of the boot disk, GB.
        labels: More labels for the machines.
        taints: (key, value, effect), with the effect as Kubernetes or Google writes it. GPU and spot pools
            get their taints automatically.
        zones: The zones of its machines; by default those of the cluster.
        cpus: The vCPUs of a machine type that symphony does not know.
        memory_gb: The memory of a machine type that symphony does not know, GiB.
        gpus: The number of GPUs of a machine type that symphony does not know, with accelerator=(type, gpus).

    Raises:
        UserError: A value has a wrong type.

    Example:
        NodePool("gpu", "n1-standard-8", accelerator=("nvidia-tesla-v100", 1), max=4)
    """

    name: str = required(strict_text)
    machine_type: str = required(strict_text)
    accelerator: tuple[str, int] | None = setting(of_type(tuple[str, int] | None))
    min: int = setting(_COUNT, 0)
    max: int = setting(_COUNT, 8)
    spot: bool = setting(FLAG, False)
    disk_gb: int = setting(_COUNT, 100)
    labels: Mapping[str, str] = setting(variables, {})
    taints: Sequence[tuple[str, str, str]] = setting(of_type(list[tuple[str, str, str]]), ())
    zones: Sequence[str] = setting(texts, ())
    cpus: float | None = setting(_SIZE)
    memory_gb: float | None = setting(_SIZE)
    gpus: int | None = setting(optional(of_type(Annotated[int, msgspec.Meta(ge=0)])))
    where: Location = field(default_factory=caller, repr=False, compare=False)

    def __post_init__(self) -> None:
        with as_usage_error():
            super().__post_init__()

    @property
    def machine(self) -> Machine | None:
        """The machine type, from the table or else from cpus and memory_gb; None if neither is known."""
        machine = machines.find(self.machine_type)
        if machine is not None or self.cpus is None or self.memory_gb is None:
            return machine
        return Machine(self.machine_type, self.cpus, int(self.memory_gb * GIB), billed=self.cpus)

    @property
    def pool(self) -> Pool:
        """The pool for placement; an unknown machine type has size 0."""
        machine = self.machine
        gpu_type, gpus = self.accelerator or ((machine.gpu_type, machine.gpus) if machine else ("", 0))
        gpus = self.gpus if self.gpus is not None else gpus
        taints = [Taint(key, value, EFFECTS.get(effect, effect)) for key, value, effect in self.taints]
        if gpus:
            taints.append(Taint(GPU_TAINT, "present"))
        if self.spot:
            taints.append(Taint(SPOT_LABEL, "true"))
        return Pool(
            name=self.name,
            machine_type=self.machine_type,
            cpu=machine.cpu if machine else 0,
            memory=machine.memory if machine else 0,
            labels=dict(self.labels),
            taints=tuple(dict.fromkeys(taints)),
            gpu_type=machines.gpu_type_of(gpu_type) if gpus else "",
            gpus=gpus,
            min=self.min,
            max=self.max,
            spot=self.spot,
            zones=tuple(self.zones),
        )


class GkeCluster(pulumi.ComponentResource):
    """A cluster on GKE; experiments use it with `symphony:cluster: STACK`.

    The stack's setting gcp:project names its project. The stack exports `kubeconfig` (secret), `registry`, to
    which images are pushed, and `pools`.

    Args:
        name: At most 40 lower-case letters, digits and inner hyphens, a letter first.
        location: A zone such as us-central1-a, or a region, whose control plane survives one zone.
        pools: The NodePools. A new min or max is applied in place. A new machine type or disk re-creates the
            machines one by one; a new GPU type, spot or name replaces the pool.
        own_network: Whether to create a network; by default the cluster uses the network `default`.
        release_channel: RAPID, REGULAR or STABLE.
        deletion_protection: Whether Pulumi refuses to delete it; symphony refuses while experiments use it.
        opts: The pulumi.ResourceOptions of the component.

    Raises:
        UserError: A value has a wrong type.
        pulumi.RunError: The cluster cannot be created; the error lists every reason.

    Example:
        GkeCluster("rl", location="us-central1-a", pools=[NodePool("cpu", "e2-standard-8", min=1)])
    """

    def __init__(
        self,
        name: str,
        *,
        location: str,
        pools: Sequence[NodePool],
        own_network: bool = False,
        release_channel: str = "REGULAR",
        deletion_protection: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declare a cluster; the class documents the arguments."""
        # engine/run/program_host.py uses the same name without importing this module.
        require_root()._symphony_cluster = self
        where = caller()
        with as_usage_error():
            self.name: str = strict_text(name, "name")
            self.location: str = strict_text(location, "location")
            self.declared: tuple[NodePool, ...] = all_of(instance_of(NodePool))(pools, "pools")
            self._own_network: bool = FLAG(own_network, "own_network")
            self._channel: str = convert(release_channel, _Channel, "release_channel")
            self._deletion_protection: bool = FLAG(deletion_protection, "deletion_protection")
        self.pools = tuple(declared.pool for declared in self.declared)
        self.project = pulumi.Config("gcp").get("project") or ""
        if problems := list(self._problems(where)):
            raise run_error(PlanError(pulumi.get_stack(), problems))
        for warning in unknown_machines(self.pools):
            pulumi.log.warn(warning)
        super().__init__("symphony:index:GkeCluster", name, None, opts)
        facts = {"name": name, "location": location, "project": self.project}
        report_facts({"cluster": {**facts, "pools": [pool.to_json() for pool in self.pools]}})
        self._register()

    @property
    def region(self) -> str:
        """The region of the cluster."""
        return "-".join(self.location.split("-")[:2])

    def _problems(self, where: Location) -> Iterator[Problem]:
        name = f"cluster {self.name}"
        if not _NAME.fullmatch(self.name):
            yield Problem(f"{name} has a name that GKE refuses", _LEGAL_NAME, (where,))
        cluster_location = self.location if _LOCATION.fullmatch(self.location) else ""
        if not cluster_location:
            remedy = "name a zone such as us-central1-a or a region such as us-central1"
            yield Problem(f"{name} is in {self.location}, which is not a zone or region", remedy, (where,))
        if not self.pools:
            yield Problem(
                f"{name} declares no node pool", 'add NodePool("cpu", "e2-standard-8") to pools', (where,)
            )
        if not self.project:
            remedy = f"set gcp:project in the config of Pulumi.{pulumi.get_stack()}.yaml"
            yield Problem(f"{name} has no Google Cloud project", remedy, (where,))
        if not _has_credentials():
            yield Problem(
                f"{name} has no Google credentials", "run `gcloud auth application-default login`", (where,)
            )
        for pool, what, remedy in faults(self.pools, cluster_location):
            lines = tuple(declared.where for declared in self.declared if declared.name == pool)
            yield Problem(f"node pool {pool} {what}", remedy, lines)
        for declared in self.declared:
            for what, remedy in _pool_problems(declared):
                yield Problem(f"node pool {declared.name} {what}", remedy, (declared.where,))

    def _register(self) -> None:
        # Imported here, since the import takes 0.2 s and most programs declare no cluster.
        import pulumi_gcp as gcp

        registry = self._registry(gcp)
        account, roles = self._account(gcp, registry)
        cluster = self._cluster(gcp, account, roles)
        pools = [self._pool(gcp, declared, cluster, account) for declared in self.declared]
        config = pulumi.Output.all(cluster.endpoint, cluster.master_auth.cluster_ca_certificate)
        self.kubeconfig = pulumi.Output.secret(config.apply(lambda parts: self._kubeconfig(*parts)))
        self.registry = registry.id.apply(
            lambda _: f"{self.region}-docker.pkg.dev/{self.project}/{self.name}"
        )
        # Unknown until the pools exist, so that no stack uses them earlier.
        pools_json = [pool.to_json() for pool in self.pools]
        exported_pools = pulumi.Output.all(*(pool.id for pool in pools)).apply(lambda _: pools_json)
        outputs = {"kubeconfig": self.kubeconfig, "registry": self.registry, "pools": exported_pools}
        for key, value in outputs.items():
            pulumi.export(key, value)
        self.register_outputs({**outputs, "location": self.location, "project": self.project})

    def _add(self, kind: Any, suffix: str, *, options: Mapping[str, Any] | None = None, **inputs: Any) -> Any:
        opts = pulumi.ResourceOptions(parent=self, **(options or {}))
        return kind(f"{self.name}{suffix}", project=self.project, opts=opts, **inputs)

    def _registry(self, gcp: Any) -> pulumi_gcp.artifactregistry.Repository:
        return self._add(
            gcp.artifactregistry.Repository,
            "-images",
            repository_id=self.name,
            location=self.region,
            format="DOCKER",
            description=f"Images of the experiments on {self.name}",
        )

    def _account(self, gcp: Any, registry: Any) -> tuple[pulumi_gcp.serviceaccount.Account, list[Any]]:
        account = self._add(
            gcp.serviceaccount.Account,
            "-nodes",
            # Google requires 6 to 30 characters.
            account_id=f"{self.name[: _NODE_ACCOUNT - len('-nodes')].rstrip('-')}-nodes",
            display_name=f"Machines of {self.name}",
        )
        member = pulumi.Output.concat("serviceAccount:", account.email)
        runs = self._add(gcp.projects.IAMMember, "-nodes-run", role=_NODE_ROLE, member=member)
        pulls = self._add(
            gcp.artifactregistry.RepositoryIamMember,
            "-nodes-pull",
            location=self.region,
            repository=registry.name,
            role="roles/artifactregistry.reader",
            member=member,
        )
        return account, [runs, pulls]

    def _network(self, gcp: Any) -> dict[str, Any]:
        network = self._add(gcp.compute.Network, "-network", name=self.name, auto_create_subnetworks=False)
        subnetwork = self._add(
            gcp.compute.Subnetwork,
            "-subnetwork",
            name=self.name,
            region=self.region,
            network=network.id,
            ip_cidr_range="10.128.0.0/20",
            private_ip_google_access=True,
        )
        return {"network": network.name, "subnetwork": subnetwork.name}

    def _cluster(self, gcp: Any, account: Any, roles: Sequence[Any]) -> pulumi_gcp.container.Cluster:
        return self._add(
            gcp.container.Cluster,
            "",
            name=self.name,
            location=self.location,
            **(self._network(gcp) if self._own_network else {"network": "default"}),
            networking_mode="VPC_NATIVE",
            ip_allocation_policy={},
            release_channel={"channel": self._channel},
            workload_identity_config={"workload_pool": f"{self.project}.svc.id.goog"},
            enable_shielded_nodes=True,
            deletion_protection=self._deletion_protection,
            # GKE creates no cluster without a pool. The default pool is removed at once; its machine must not
            # run as the project's account either.
            remove_default_node_pool=True,
            initial_node_count=1,
            node_config={"service_account": account.email, "oauth_scopes": [_SCOPE]},
            resource_labels={"managed-by": "symphony"},
            options={"depends_on": roles, "ignore_changes": ["nodeConfig", "initialNodeCount"]},
        )

    def _pool(
        self, gcp: Any, declared: NodePool, cluster: Any, account: Any
    ) -> pulumi_gcp.container.NodePool:
        pool = declared.pool
        limits = {"total_min_node_count": pool.min, "total_max_node_count": pool.max}
        scarce = bool(pool.gpus) or pool.spot
        return self._add(
            gcp.container.NodePool,
            f"-{pool.name}",
            name=pool.name,
            cluster=cluster.name,
            location=self.location,
            node_locations=list(pool.zones) or None,
            # The count is a number of machines in each zone.
            initial_node_count=pool.min if len(pool.zones) == 1 else min(pool.min, 1),
            autoscaling={**limits, "location_policy": "ANY" if scarce else "BALANCED"},
            management={"auto_repair": True, "auto_upgrade": True},
            node_config=_node_config(declared, account.email),
            # Two pools cannot have the same name.
            options={"delete_before_replace": True, "ignore_changes": ["initialNodeCount"]},
        )

    def _kubeconfig(self, endpoint: str, authority: str) -> str:
        """Return a kubeconfig without credentials: `gcloud` provides them."""
        context = f"gke_{self.project}_{self.location}_{self.name}"
        server = {"server": f"https://{endpoint}", "certificate-authority-data": authority}
        login = {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "gke-gcloud-auth-plugin",
            "installHint": "Install it with `gcloud components install gke-gcloud-auth-plugin`",
            "provideClusterInfo": True,
        }
        user_and_cluster = {"cluster": context, "user": context}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [{"name": context, "cluster": server}],
            "users": [{"name": context, "user": {"exec": login}}],
            "contexts": [{"name": context, "context": user_and_cluster}],
        }
        return json.dumps(content)


def _pool_problems(declared: NodePool) -> Iterator[tuple[str, str]]:
    """Yield the problems for which Google would refuse a pool, as (what, remedy)."""
    if not _NAME.fullmatch(declared.name):
        yield "has a name that GKE refuses", _LEGAL_NAME
    minimum, maximum = _DISK_GB
    if not minimum <= declared.disk_gb <= maximum:
        yield f"has a disk of {declared.disk_gb} GB", f"set disk_gb from {minimum} to {maximum}"
    for taint in declared.pool.taints:
        if taint.effect not in _EFFECTS:
            what = f"has a taint with the unknown effect {taint.effect}"
            yield what, f"use one of {', '.join(_EFFECTS)}"


def _node_config(declared: NodePool, email: Any) -> Mapping[str, Any]:
    pool = declared.pool
    config: dict[str, Any] = {
        "machine_type": pool.machine_type,
        "disk_size_gb": declared.disk_gb,
        "spot": pool.spot,
        "service_account": email,
        "oauth_scopes": [_SCOPE],
        "labels": dict(pool.labels),
        # GKE itself taints machines that have GPUs.
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": _EFFECTS[taint.effect]}
            for taint in pool.taints
            if taint.key != GPU_TAINT
        ],
        # The modules of GPU drivers are not signed.
        "shielded_instance_config": {
            "enable_secure_boot": not pool.gpus,
            "enable_integrity_monitoring": True,
        },
        "workload_metadata_config": {"mode": "GKE_METADATA"},
    }
    if pool.gpus:
        drivers = {"gpu_driver_version": "DEFAULT"}
        config["guest_accelerators"] = [
            {"type": pool.gpu_type, "count": pool.gpus, "gpu_driver_installation_config": drivers}
        ]
    return config


def _has_credentials() -> bool:
    """Return whether any credentials for Google are configured; whether they are valid, Google decides."""
    config = pulumi.Config("gcp")
    if any(config.get(key) for key in ("credentials", "accessToken")):
        return True
    if any(os.environ.get(name) for name in _KEY_VARIABLES):
        return True
    folder = os.environ.get("CLOUDSDK_CONFIG")
    login_file = Path(folder) / _LOGIN_FILE.name if folder else Path.home() / _LOGIN_FILE
    try:
        return login_file.exists() or "Google" in _VENDOR.read_text()
    except OSError:
        return False
