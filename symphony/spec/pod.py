"""Settings of a pod: an ungrouped process sets them itself, a grouped one through its group."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from symphony.spec.location import NOWHERE, Location
from symphony.spec.setting import (
    FLAG,
    GPUS,
    NUMBER,
    OPTIONAL_TEXT,
    Checked,
    all_of,
    instance_of,
    manifest,
    of_type,
    optional,
    quantity,
    required,
    setting,
    strict_text,
    variables,
)

RestartPolicy = Literal["Always", "OnFailure", "Never"]
Operator = Literal["Exists", "Equal"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@dataclass(frozen=True)
class Toleration(Checked):
    """A taint of nodes that a pod may run on.

    Args:
        key: The key of the taint; any by default.
        operator: "Equal" (by default) compares key and value, "Exists" only the key.
        value: The value of the taint.
        effect: "NoSchedule", "PreferNoSchedule" or "NoExecute"; any by default.
        toleration_seconds: How long the pod stays after a NoExecute taint is added; for ever by default.

    Example:
        Toleration(key="gpu", operator="Exists", effect="NoSchedule")
    """

    key: str | None = setting(OPTIONAL_TEXT)
    operator: Operator | None = setting(of_type(Operator | None))
    value: str | None = setting(OPTIONAL_TEXT)
    effect: Effect | None = setting(of_type(Effect | None))
    toleration_seconds: int | None = setting(NUMBER)


@dataclass(frozen=True)
class Place(Checked):
    """The machines that a process runs on.

    Args:
        pool: The node pool; by default the cheapest whose machines offer the rest.
        per_machine: A share of a machine, so that this many processes fit on one and no more.
        cpu: Cores, such as 2, 0.5 or "500m".
        memory: Bytes, such as 8e9 or "8Gi".
        gpu: The number of GPUs.
        gpu_type: The type of the GPUs.
        spot: Whether the cloud may take the machines away.
        constraint: Features that the nodes must have, on Slurm.
        partition: The partition of the nodes, on Slurm; by default that of the stack.

    Example:
        experiment.new_process("learner", image="rl:1", place=Place(gpu=1, gpu_type="v100"))
    """

    pool: str | None = setting(OPTIONAL_TEXT)
    per_machine: int | None = setting(optional(of_type(Annotated[int, Meta(ge=1)])))
    cpu: str | float | None = setting(quantity)
    memory: str | float | None = setting(quantity)
    gpu: int | None = setting(GPUS)
    gpu_type: str | None = setting(OPTIONAL_TEXT)
    spot: bool | None = setting(of_type(bool | None))
    constraint: str | None = setting(OPTIONAL_TEXT)
    partition: str | None = setting(OPTIONAL_TEXT)


@dataclass(frozen=True)
class PodSettings:
    """The nodes on which a pod may run, what happens when it ends, and its labels."""

    node_selector: Mapping[str, str] = setting(variables, {}, keyword=True, varies=True)
    tolerations: tuple[Toleration, ...] = setting(
        all_of(instance_of(Toleration)),
        (),
        keyword=True,
        varies=True,
        part=Toleration,
    )
    restart_policy: RestartPolicy | None = setting(of_type(RestartPolicy | None), keyword=True, varies=True)
    labels: Mapping[str, str] = setting(variables, {}, keyword=True, varies=True)
    pod_yml: Mapping[str, Any] = setting(manifest, {}, varies=True)


@dataclass(frozen=True, kw_only=True)
class Mount(Checked):
    """A volume at mount_path inside the container; its manifest derives a name if none is set."""

    mount_path: str = required(strict_text)
    name: str | None = setting(OPTIONAL_TEXT)
    where: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, kw_only=True)
class NfsMount(Mount):
    """The folder `path` of an NFS server."""

    server: str = required(strict_text)
    path: str = required(strict_text)


@dataclass(frozen=True, kw_only=True)
class SecretMount(Mount):
    """A Kubernetes Secret as files; default_mode is a file mode such as 0o400."""

    secret_name: str = required(strict_text)
    default_mode: int | None = setting(NUMBER)


@dataclass(frozen=True, kw_only=True)
class GitRepoMount(Mount):
    """A git repository at a revision, cloned before the process starts."""

    repository: str = required(strict_text)
    revision: str = required(strict_text)


@dataclass(frozen=True, kw_only=True)
class HostPathMount(Mount):
    """A file or folder of the node that the pod runs on; hostpath_type is Kubernetes' hostPath.type."""

    path: str = required(strict_text)
    hostpath_type: str = setting(strict_text, "")


@dataclass(frozen=True, kw_only=True)
class EmptyDirMount(Mount):
    """An empty folder that the processes of a pod share; use_memory keeps it in memory."""

    use_memory: bool = setting(FLAG, False)


@dataclass(frozen=True, kw_only=True)
class SharedMemoryMount(Mount):
    """A folder in memory; mount_shared_memory() puts it at /dev/shm."""


# A new kind also needs mount_WORD in components/builder.py, and volume_source in manifests/pod.py.
MOUNT_KINDS: dict[str, type[Mount]] = {
    "nfs": NfsMount,
    "secret": SecretMount,
    "git_repo": GitRepoMount,
    "host_path": HostPathMount,
    "empty_dir": EmptyDirMount,
    "shared_memory": SharedMemoryMount,
}
