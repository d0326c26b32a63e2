"""What is mounted into the container of a process; one frozen class a kind of mount."""

from __future__ import annotations

from dataclasses import dataclass, field

from symphony.spec.location import NOWHERE, Location


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A volume at mount_path inside the container; name None lets the plan name the volume."""

    mount_path: str
    name: str | None = None
    where: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, kw_only=True)
class NfsMount(Mount):
    """The folder `path` of an NFS server."""

    server: str
    path: str


@dataclass(frozen=True, kw_only=True)
class SecretMount(Mount):
    """A Kubernetes Secret as files; default_mode is a file mode such as 0o400."""

    secret_name: str
    default_mode: int | None = None


@dataclass(frozen=True, kw_only=True)
class GitRepoMount(Mount):
    """A git repository at a revision, cloned before the process starts."""

    repository: str
    revision: str


@dataclass(frozen=True, kw_only=True)
class HostPathMount(Mount):
    """A file or folder of the machine the process runs on; hostpath_type is Kubernetes' own word."""

    path: str
    hostpath_type: str = ""


@dataclass(frozen=True, kw_only=True)
class EmptyDirMount(Mount):
    """An empty folder that the processes of a pod share; in memory when use_memory."""

    use_memory: bool = False


@dataclass(frozen=True, kw_only=True)
class SharedMemoryMount(Mount):
    """A memory-backed /dev/shm."""


MOUNT_KINDS: dict[str, type[Mount]] = {
    "nfs": NfsMount,
    "secret": SecretMount,
    "git_repo": GitRepoMount,
    "host_path": HostPathMount,
    "empty_dir": EmptyDirMount,
    "shared_memory": SharedMemoryMount,
}
