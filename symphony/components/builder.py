"""What Process and ProcessGroup share: a frozen spec that each call replaces; the line of each setting."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from symphony.components.errors import usage_error
from symphony.components.overrides import Override
from symphony.plan.names import shown
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.location import caller, part_of
from symphony.spec.mounts import (
    EmptyDirMount,
    GitRepoMount,
    HostPathMount,
    Mount,
    NfsMount,
    SecretMount,
    SharedMemoryMount,
)
from symphony.spec.plain import DEEPEST
from symphony.spec.pod import Effect, Operator, RestartPolicy, Toleration
from symphony.spec.process import ProcessSpec, Quantity
from symphony.spec.setting import keywords_of
from symphony.spec.shared import Env, EnvValue, PullPolicy, Value, Variables
from symphony.spec.types import read_text, read_variables

if TYPE_CHECKING:
    from symphony.plan.plan import Plan

AnySpec = TypeVar("AnySpec", ProcessSpec, ProcessGroupSpec, ExperimentSpec)
MemberSpec = TypeVar("MemberSpec", ProcessSpec, ProcessGroupSpec)


# What the original Symphony took: whether a process has a pod of its own. It has one when it is in no group.
_MEANS_NOTHING = ("standalone",)


def merged(before: Any, added: Any) -> Any:
    """Two mappings as one, the later value wins; what is no mapping stays, for the plan to refuse."""
    if not isinstance(before, Mapping):
        return before
    if not isinstance(added, Mapping):
        return added
    return {**cast("Mapping[Any, Any]", before), **cast("Mapping[Any, Any]", added)}


def names_in(value: Any) -> tuple[Any, ...]:
    """The names in a mapping; none in what is no mapping."""
    return tuple(cast("Mapping[Any, Any]", value)) if isinstance(value, Mapping) else ()


def single(name: Any, value: Any) -> dict[Any, Any]:
    """A mapping of one item, whatever the name is; the plan refuses one that is no text."""
    try:
        return {name: value}
    except TypeError:
        return {(type(name).__name__,): value}


def declare(kind: type[AnySpec], name: str, given: Mapping[str, Any]) -> AnySpec:
    """The spec of what is declared on the caller's line; None is a setting that is not made."""
    keywords = keywords_of(kind)
    made: dict[str, Any] = {}
    unknown: list[str] = []
    for keyword, value in given.items():
        setting = keywords.get(keyword)
        if keyword in _MEANS_NOTHING:
            continue
        if setting is None:
            unknown.append(keyword)
        elif value is not None and (setting.name not in made or keyword == setting.name):
            made[setting.name] = setting.type.read(value)
    where = caller()
    return kind(name, unknown=tuple(unknown), where=where, places=dict.fromkeys(made, where), **made)


def copied(value: Any, within: tuple[int, ...] = ()) -> Any:
    """The value with lists and dicts of its own; what holds itself is left for the plan to refuse."""
    if id(value) in within or len(within) > DEEPEST:
        return value
    seen = (*within, id(value))
    if isinstance(value, Mapping):
        return {name: copied(each, seen) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [copied(each, seen) for each in cast("list[Any]", value)]
    return value


class Builder(Generic[AnySpec]):
    """Holds what the user declared so far; every call replaces the frozen spec and notes its line."""

    _spec: AnySpec

    if TYPE_CHECKING:  # Pulumi evaluates the annotations of components, and would load the plan's module
        _plan: Plan | None

    def __setattr__(self, name: str, value: Any) -> None:
        """A setting that is assigned would be lost without a word, so it is refused."""
        if callable(getattr(type(self), name, None)):
            raise usage_error(f"{name} is not assigned", f"Call {name}(...)")
        # Before a spec is there, what is assigned is the component's own.
        if (spec := vars(self).get("_spec")) is not None and name in keywords_of(
            cast("type[Any]", type(spec))
        ):
            kind = type(self).__name__
            raise usage_error(f"{name} of a {kind} is not assigned", f"Give {name}=... where it is declared")
        super().__setattr__(name, value)

    @property
    def spec(self) -> AnySpec:
        """What was declared, as a frozen value."""
        return self._spec

    @property
    def name(self) -> str:
        """The name it was declared with."""
        return self._spec.name

    @property
    def _launched(self) -> Plan:
        if self._plan is None:
            what = f"{type(self).__name__} {shown(self._spec.name)} is not launched yet"
            raise usage_error(what, "Read this after the with block, or after launch()")
        return self._plan

    @property
    def session(self) -> str:
        """The tmux session or Kubernetes namespace that it runs in. UserError: it is not launched yet."""
        return self._launched.launched_as

    def _set(self, setting: str, parts: Iterable[Any] = (), **changes: Any) -> None:
        """Make a setting; parts are the names or numbers within it that this line is about."""
        where = caller()
        places = {**self._spec.places, setting: where, **{part_of(setting, part): where for part in parts}}
        self._spec = dataclasses.replace(self._spec, places=places, **changes)


class MemberBuilder(Builder[MemberSpec]):
    """The calls that a process and a process group share; those of a pod go to the group where there is one.

    Of a setting that is made twice the later value wins. Nothing is checked here: what is wrong is reported
    with its line at launch. pod_yml is a dict that is merged last into the pod's manifest.
    """

    pod_yml: Override

    @property
    def spec(self) -> MemberSpec:
        """What was declared, as a frozen value."""
        pod = dataclasses.replace(self._spec.pod, pod_yml=copied(self.pod_yml))
        return dataclasses.replace(self._spec, pod=pod)

    def set_env(self, name: str, value: EnvValue) -> None:
        """Set one environment variable: set_env("LR", 0.1).

        value: text, a number, a path or an Output of Pulumi, under this name.
        """
        self.set_envs(single(name, value))

    def set_envs(self, env: Env) -> None:
        """Set environment variables: set_envs({"SEED": 1, "DEVICE": "cpu"}). env: see set_env()."""
        self._set_more("env", self._spec.env, read_variables(env))

    def image_pull_policy(self, policy: PullPolicy) -> None:
        """When Kubernetes pulls the image: image_pull_policy("Always").

        policy: "Always", "IfNotPresent" or "Never".
        """
        self._set("image_pull_policy", image_pull_policy=policy)

    def place(
        self,
        pool: str | None = None,
        *,
        per_machine: int | None = None,
        cpu: Quantity | None = None,
        memory: Quantity | None = None,
        gpu: int | None = None,
        gpu_type: str | None = None,
        spot: bool | None = None,
    ) -> None:
        """Choose machines: place("cpu", per_machine=4), place(gpu=1, gpu_type="v100"), place(cpu=3).

        pool:        the node pool; by default the cheapest whose machines offer the rest.
        per_machine: a share of a machine, so that this many fit on one and no more.
        cpu:         cores, such as 2, 0.5 or "500m". memory: bytes, such as 8e9 or "8Gi".
        gpu:         how many; gpu_type: of which type.
        spot:        whether machines will do that the cloud may take away.

        Of a group, all of this is of its processes together.
        """
        given = {
            "pool": pool,
            "per_machine": per_machine,
            "cpu": cpu,
            "memory": memory,
            "gpu": gpu,
            "gpu_type": gpu_type,
            "spot": spot,
        }
        made = {name: value for name, value in given.items() if value is not None}
        self._set("place", made, place=dataclasses.replace(self._spec.place, **made))

    # pod level

    def node_selector(self, key: str, value: Value) -> None:
        """Run only on nodes whose label `key` has this value: node_selector("gpu-type", "a100")."""
        self._pod_more("node_selector", self._spec.pod.node_selector, single(key, read_text(value)))

    def add_toleration(
        self,
        key: str | None = None,
        operator: Operator | None = None,
        value: str | None = None,
        effect: Effect | None = None,
        tolerationSeconds: int | None = None,
    ) -> None:
        """May run on nodes with this taint; what is left out matches any.

        operator: "Equal" (by default) compares key and value, "Exists" only the key.
        effect:   "NoSchedule", "PreferNoSchedule" or "NoExecute".
        tolerationSeconds: for how many seconds after the taint comes (NoExecute); for ever by default.

        add_toleration(key="gpu", operator="Exists", effect="NoSchedule")
        """
        before = self._spec.pod.tolerations
        added = Toleration(key, operator, value, effect, tolerationSeconds)
        self._pod("tolerations", [len(before)], tolerations=(*before, added))

    def restart_policy(self, policy: RestartPolicy) -> None:
        """Whether what has ended is started again: restart_policy("OnFailure").

        policy: "Always", "OnFailure" (an exit code other than 0, or a signal) or "Never".
        """
        self._pod("restart_policy", (), restart_policy=policy)

    def add_label(self, key: str, value: Value) -> None:
        """Label the pod, under this key with this value: add_label("team", "rl")."""
        self.add_labels(single(key, value))

    def add_labels(self, labels: Variables | None = None, **more: Value) -> None:
        """Label the pod: add_labels({"team": "rl"}, stage="test"). labels: {key: value}; more: key=value."""
        self._pod_more("labels", self._spec.pod.labels, merged(read_variables(labels), read_variables(more)))

    def _set_more(self, setting: str, before: Any, more: Any) -> None:
        # The first value that is no mapping is the mistake to report, on its own line.
        if isinstance(before, Mapping):
            self._set(setting, names_in(more), **{setting: merged(before, more)})

    def _pod_more(self, setting: str, before: Any, more: Any) -> None:
        if isinstance(before, Mapping):
            self._pod(setting, names_in(more), **{setting: merged(before, more)})

    def _pod(self, setting: str, parts: Iterable[Any], **changes: Any) -> None:
        self._set(setting, parts, pod=dataclasses.replace(self._spec.pod, **changes))

    # mounts

    def mount_nfs(self, server: str, path: str, mount_path: str, name: str | None = None) -> None:
        """Mount a folder of an NFS server: mount_nfs("10.0.0.2", "/data", "/mnt/data").

        path: the folder there. mount_path: where it appears in the container.
        name: of the volume, chosen by default.
        """
        self._mount(NfsMount(server=server, path=path, mount_path=mount_path, name=name, where=caller()))

    def mount_secret(
        self,
        secret_name: str,
        mount_path: str,
        defaultMode: int | None = None,
        name: str | None = None,
    ) -> None:
        """Mount a Secret of the namespace as files: mount_secret("wandb", "/etc/wandb", defaultMode=0o400).

        secret_name: of the Secret, which you create. mount_path: the folder of its files in the container.
        defaultMode: their mode, 0o644 by default. name: of the volume, chosen by default.
        """
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
        """Mount a git repository, cloned before the process starts.

        mount_git_repo("https://github.com/me/rl.git", "main", "/code")

        repository: its URL. revision: a branch, tag or commit. mount_path: where it appears in the container.
        name: of the volume, chosen by default.
        """
        self._mount(
            GitRepoMount(
                repository=repository, revision=revision, mount_path=mount_path, name=name, where=caller()
            )
        )

    def mount_host_path(
        self, path: str, mount_path: str, hostpath_type: str = "", name: str | None = None
    ) -> None:
        """Mount a file or folder of the machine: mount_host_path("/mnt/disks/ssd0", "/scratch").

        It needs `symphony:podSecurity: privileged`.
        path: on the machine. mount_path: where it appears in the container.
        hostpath_type: what Kubernetes checks or makes there, such as "Directory"; nothing by default.
        name: of the volume, chosen by default.
        """
        self._mount(
            HostPathMount(
                path=path, mount_path=mount_path, hostpath_type=hostpath_type, name=name, where=caller()
            )
        )

    def mount_empty_dir(self, name: str, use_memory: bool, mount_path: str) -> None:
        """Mount an empty folder that goes with the pod: mount_empty_dir("scratch", False, "/scratch").

        name: of the volume. use_memory: keep it in memory instead of on disk. mount_path: where it appears.
        """
        self._mount(EmptyDirMount(name=name, use_memory=use_memory, mount_path=mount_path, where=caller()))

    def mount_shared_memory(self, name: str = "devshm") -> None:
        """Mount a /dev/shm in memory, larger than the usual 64 MiB, for data loaders: mount_shared_memory().

        name: of the volume.
        """
        self._mount(SharedMemoryMount(name=name, mount_path="/dev/shm", where=caller()))

    def _mount(self, mount: Mount) -> None:
        self._set("mounts", mounts=(*self._spec.mounts, mount))
