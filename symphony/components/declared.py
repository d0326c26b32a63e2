"""What Process and ProcessGroup share: a frozen spec that each call replaces, and who said what where."""

from __future__ import annotations

import copy
import dataclasses
import shlex
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from symphony.spec.experiment import ExperimentSpec
from symphony.spec.group import ProcessGroupSpec
from symphony.spec.location import caller
from symphony.spec.mounts import (
    EmptyDirMount,
    GitRepoMount,
    HostPathMount,
    Mount,
    NfsMount,
    SecretMount,
    SharedMemoryMount,
)
from symphony.spec.pod import Toleration
from symphony.spec.process import ProcessSpec

AnySpec = TypeVar("AnySpec", ProcessSpec, ProcessGroupSpec, ExperimentSpec)
MemberSpec = TypeVar("MemberSpec", ProcessSpec, ProcessGroupSpec)


def words(said: Any) -> Any:
    """A command as a tuple of words; what cannot be split stays as it is, for the plan to refuse."""
    if isinstance(said, str):
        try:
            return tuple(shlex.split(said))
        except ValueError:
            return said
    return listed(said)


def listed(said: Any) -> Any:
    """A list as a tuple, numbers in it as text, one text as a tuple of one; None is nothing."""
    if said is None:
        return ()
    if isinstance(said, str):
        return (said,)
    if isinstance(said, (list, tuple)):
        return tuple(str(each) if type(each) in (int, float) else each for each in said)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return said


def variables(said: Any) -> Any:
    """A mapping of variables with numbers as text."""
    if said is None:
        return {}
    if isinstance(said, Mapping):
        return {k: str(v) if type(v) in (int, float, bool) else v for k, v in said.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return said


class Declared(Generic[AnySpec]):
    """Holds what the user said so far; every call replaces the frozen spec and notes its line."""

    _spec: AnySpec

    @property
    def spec(self) -> AnySpec:
        """What was said, as a frozen value."""
        return self._spec

    def _say(self, setting: str, **changes: Any) -> None:
        said = {**self._spec.said, setting: caller()}
        self._spec = dataclasses.replace(self._spec, said=said, **changes)


class DeclaredMember(Declared[MemberSpec]):
    """The calls that a process and a process group share; pod-level ones go to the group where there is one.

    pod_yml is a dict; what is put there is merged last into the pod's manifest.
    """

    pod_yml: dict[str, Any]

    @property
    def spec(self) -> MemberSpec:
        """What was said, as a frozen value."""
        pod = dataclasses.replace(self._spec.pod, pod_yml=copy.deepcopy(self.pod_yml))
        return dataclasses.replace(self._spec, pod=pod)

    def set_env(self, name: str, value: Any) -> None:
        """Set one environment variable."""
        self.set_envs({name: value})

    def set_envs(self, env: Mapping[str, Any]) -> None:
        """Set environment variables; a later value wins."""
        given = variables(env)
        self._say("env", env={**self._spec.env, **given} if isinstance(given, dict) else given)

    def image_pull_policy(self, policy: str) -> None:
        """When Kubernetes pulls the image: Always, IfNotPresent or Never."""
        self._say("image_pull_policy", image_pull_policy=policy)

    # pod level

    def node_selector(self, key: str, value: str) -> None:
        """Run only on nodes with this label."""
        self._pod("node_selector", node_selector={**self._spec.pod.node_selector, key: value})

    def add_toleration(
        self,
        key: str | None = None,
        operator: str | None = None,
        value: str | None = None,
        effect: str | None = None,
    ) -> None:
        """May run on nodes with this taint."""
        added = Toleration(key, operator, value, effect)
        self._pod("tolerations", tolerations=(*self._spec.pod.tolerations, added))

    def restart_policy(self, policy: str) -> None:
        """What Kubernetes does when a container ends: Always, OnFailure or Never."""
        self._pod("restart_policy", restart_policy=policy)

    def add_label(self, key: str, value: str) -> None:
        """Label the pod."""
        self.add_labels({key: value})

    def add_labels(self, labels: Mapping[str, str] | None = None, **more: str) -> None:
        """Label the pod, by a mapping or by keywords."""
        self._pod("labels", labels={**self._spec.pod.labels, **(labels or {}), **more})

    def _pod(self, setting: str, **changes: Any) -> None:
        self._say(setting, pod=dataclasses.replace(self._spec.pod, **changes))

    # mounts

    def mount_nfs(self, server: str, path: str, mount_path: str, name: str | None = None) -> None:
        """Mount a folder of an NFS server."""
        self._mount(NfsMount(server=server, path=path, mount_path=mount_path, name=name, where=caller()))

    def mount_secret(
        self,
        secret_name: str,
        mount_path: str,
        defaultMode: int | None = None,
        name: str | None = None,
    ) -> None:
        """Mount a Kubernetes Secret; defaultMode is a file mode such as 0o400."""
        self._mount(
            SecretMount(
                secret_name=secret_name,
                mount_path=mount_path,
                default_mode=defaultMode,
                name=name,
                where=caller(),
            )
        )

    def mount_git_repo(
        self, repository: str, revision: str, mount_path: str, name: str | None = None
    ) -> None:
        """Mount a git repository at a revision."""
        self._mount(
            GitRepoMount(
                repository=repository, revision=revision, mount_path=mount_path, name=name, where=caller()
            )
        )

    def mount_host_path(
        self, path: str, mount_path: str, hostpath_type: str = "", name: str | None = None
    ) -> None:
        """Mount a file or folder of the node."""
        self._mount(
            HostPathMount(
                path=path, mount_path=mount_path, hostpath_type=hostpath_type, name=name, where=caller()
            )
        )

    def mount_empty_dir(self, name: str, use_memory: bool, mount_path: str) -> None:
        """Mount an empty folder, in memory or on disk."""
        self._mount(EmptyDirMount(name=name, use_memory=use_memory, mount_path=mount_path, where=caller()))

    def mount_shared_memory(self, name: str = "devshm") -> None:
        """Mount a memory-backed /dev/shm."""
        self._mount(SharedMemoryMount(name=name, mount_path="/dev/shm", where=caller()))

    def _mount(self, mount: Mount) -> None:
        self._say("mounts", mounts=(*self._spec.mounts, mount))
