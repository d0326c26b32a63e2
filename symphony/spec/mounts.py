"""What is mounted into the container of a process; one frozen class a kind of mount."""

from __future__ import annotations

from dataclasses import dataclass, field

from symphony.spec import setting, types
from symphony.spec.location import NOWHERE, Location


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A volume at mount_path inside the container; name None lets the plan name the volume."""

    mount_path: str = field(metadata=setting.metadata(types.TEXT))
    name: str | None = setting.setting(types.OPTIONAL_TEXT)
    where: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, kw_only=True)
class NfsMount(Mount):
    """The folder `path` of an NFS server."""

    server: str = field(metadata=setting.metadata(types.TEXT))
    path: str = field(metadata=setting.metadata(types.TEXT))


@dataclass(frozen=True, kw_only=True)
class SecretMount(Mount):
    """A Kubernetes Secret as files; default_mode is a file mode such as 0o400."""

    secret_name: str = field(metadata=setting.metadata(types.TEXT))
    default_mode: int | None = setting.setting(types.WHOLE_NUMBER)


@dataclass(frozen=True, kw_only=True)
class GitRepoMount(Mount):
    """A git repository at a revision, cloned before the process starts."""

    repository: str = field(metadata=setting.metadata(types.TEXT))
    revision: str = field(metadata=setting.metadata(types.TEXT))


@dataclass(frozen=True, kw_only=True)
class HostPathMount(Mount):
    """A file or folder of the machine the process runs on; hostpath_type is Kubernetes' own word."""

    path: str = field(metadata=setting.metadata(types.TEXT))
    hostpath_type: str = setting.setting(types.TEXT)


@dataclass(frozen=True, kw_only=True)
class EmptyDirMount(Mount):
    """An empty folder that the processes of a pod share; in memory when use_memory."""

    use_memory: bool = setting.setting(types.FLAG)


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
