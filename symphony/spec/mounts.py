"""Volumes that are mounted into the container of a process, a frozen class for each kind."""

from __future__ import annotations

from dataclasses import dataclass, field

from symphony.spec.convert import FLAG, NUMBER, OPTIONAL_TEXT, strict_text
from symphony.spec.location import NOWHERE, Location
from symphony.spec.setting import Checked, required, setting


@dataclass(frozen=True, kw_only=True)
class Mount(Checked):
    """A volume at mount_path inside the container; the plan names a volume without a name."""

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
    """A file or folder of the machine the process runs on; hostpath_type is that of Kubernetes."""

    path: str = required(strict_text)
    hostpath_type: str = setting(strict_text, "")


@dataclass(frozen=True, kw_only=True)
class EmptyDirMount(Mount):
    """An empty folder that the processes of a pod share; in memory when use_memory."""

    use_memory: bool = setting(FLAG, False)


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
