"""Builder, the base of components: calls replace its frozen spec and record the line of each setting."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

import pulumi

from symphony.components import program_run
from symphony.components.usage_errors import as_usage_error, usage_error
from symphony.plan.names import listed, nearest, quoted
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.location import caller, part_key
from symphony.spec.order import Condition, Names, dependency
from symphony.spec.pod import (
    Effect,
    EmptyDirMount,
    GitRepoMount,
    HostPathMount,
    Mount,
    NfsMount,
    Operator,
    Place,
    PodSettings,
    RestartPolicy,
    SecretMount,
    SharedMemoryMount,
    Toleration,
)
from symphony.spec.process import ProcessSpec, Quantity, Resources
from symphony.spec.setting import Setting, manifest, settings_of, strict_text
from symphony.spec.shared import Env, EnvValue, PullPolicy, Value, Variables

if TYPE_CHECKING:
    from symphony.plan.plan import Plan


class Override(dict[str, Any]):
    """A part of a manifest; reading a missing key creates a nested part: pod_yml["spec"]["nodeName"]."""

    def __missing__(self, key: str) -> Override:
        return self.setdefault(key, Override())

    @property
    def data(self) -> Self:
        """The dict itself."""
        return self

    def set_attr(self, more: Mapping[str, Any]) -> None:
        """Merge a mapping deeply into this part; its values win."""
        for name, value in more.items():
            # An empty mapping stays as it is: an empty Override only tells that a part was read.
            if isinstance(value, Mapping) and (value or name in self):
                part = Override(self[name]) if isinstance(self.get(name), dict) else Override()
                part.set_attr(cast("Mapping[str, Any]", value))
                self[name] = part
            else:
                self[name] = value


class ContainerOverride(Override):
    """A part of a container's manifest."""

    def __init__(self, set_env: Callable[[str, Any], None]) -> None:
        super().__init__()
        self._set_env = set_env

    def set_env(self, name: str, value: Any) -> None:
        """Set an environment variable of the process."""
        self._set_env(name, value)

    def set_envs(self, env: Mapping[str, Any]) -> None:
        """Set environment variables of the process."""
        for name, value in env.items():
            self.set_env(name, value)


AnyOverride = TypeVar("AnyOverride", bound=Override)


def filled(override: AnyOverride, value: Any, setting: str) -> AnyOverride:
    """Return an override with a copy of the mapping that a keyword has; raise UserError for another type."""
    with as_usage_error():
        override.set_attr(manifest({} if value is None else value, setting))
    return override


def without_empty_parts(override: Any) -> Any:
    """Return an override without the empty parts that reading alone has created."""
    if not isinstance(override, Override):
        return override
    parts = {name: without_empty_parts(part) for name, part in override.items()}
    return {name: part for name, part in parts.items() if part or not isinstance(override[name], Override)}


AnySpec = TypeVar("AnySpec", ProcessSpec, ProcessGroupSpec, ExperimentSpec)
MemberSpec = TypeVar("MemberSpec", ProcessSpec, ProcessGroupSpec)
_RESOURCES = ("resources", "limits")


def keywords_of(kind: type[Any]) -> Mapping[str, Setting]:
    """Return the settings that the declaration of a spec of this class takes as keywords."""
    own = {name: setting for name, setting in settings_of(kind).items() if setting.keyword}
    pod = settings_of(PodSettings) if "pod" in settings_of(kind) else dict[str, Setting]()
    return own | {name: setting for name, setting in pod.items() if setting.keyword}


def declare(kind: type[AnySpec], name: str, options: Mapping[str, Any]) -> AnySpec:
    """Return the spec of a declaration on the caller's line; a setting of None counts as not set."""
    keywords, where = keywords_of(kind), caller()
    settings: dict[str, Any] = {}
    with as_usage_error():
        strict_text(name, "name")
        for keyword, value in options.items():
            if keyword in _RESOURCES and kind is ProcessSpec:
                settings |= _resource_settings(keyword, value, name, settings)
            elif keyword not in keywords:
                raise _unknown(keyword, name, [*keywords, *(_RESOURCES if kind is ProcessSpec else ())])
            elif value is not None:
                settings[keyword] = keywords[keyword].convert(value, f"{name}: {keyword}")
    pod = {setting: settings.pop(setting) for setting in settings_of(PodSettings) if setting in settings}
    lines = dict.fromkeys([*settings, *pod], where)
    if pod:
        settings["pod"] = PodSettings(**pod)
    return kind(name, where=where, lines=lines, **settings)


def _resource_settings(keyword: str, value: Any, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for resources= and limits=; GPUs are set as a limit, which implies the request."""
    if value is None:
        return {}
    resources: Resources = settings_of(ProcessSpec)["resource_limit"].convert(value, f"{name}: {keyword}")
    limit: Resources = settings.get("resource_limit", Resources())
    if keyword == "resources":
        limit = limit if resources.gpu is None else dataclasses.replace(limit, gpu=resources.gpu)
        return {"resource_request": dataclasses.replace(resources, gpu=None), "resource_limit": limit}
    return {
        "resource_limit": dataclasses.replace(
            resources, gpu=limit.gpu if resources.gpu is None else resources.gpu
        )
    }


def _unknown(keyword: str, name: str, known: list[str]) -> Exception:
    if keyword.startswith("mount_"):
        remedy = f"Call .{keyword}(...) instead"
    elif near := nearest(keyword, known):
        remedy = f"Did you mean {near}?"
    else:
        remedy = f"Use one of: {listed(sorted(known), 40)}"
    return usage_error(f"{name}: unknown option {quoted(keyword)}", remedy)


class Builder(Generic[AnySpec]):
    """The declaration so far, as a frozen spec; each call replaces it and records the caller's line."""

    _spec: AnySpec

    if TYPE_CHECKING:  # Pulumi evaluates the annotations of components, and would load the plan's module
        _plan: Plan | None
        _options: pulumi.ResourceOptions | None

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse the assignment of a setting, which would be lost silently."""
        if callable(getattr(type(self), name, None)):
            raise usage_error(f"{name} is a method and cannot be assigned", f"Call {name}(...)")
        # Attributes set before the spec exists belong to the component.
        spec: Any = vars(self).get("_spec")
        if spec is not None and name in keywords_of(cast("type[Any]", type(spec))):
            kind = type(self).__name__
            raise usage_error(
                f"{name} of a {kind} cannot be assigned", f"Give {name}=... where the {kind} is declared"
            )
        super().__setattr__(name, value)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # With name and obj, Python adds "Did you mean".
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=self)

    @property
    def spec(self) -> AnySpec:
        """The declaration, as a frozen value."""
        return self._spec

    @property
    def name(self) -> str:
        """The name in the program."""
        return self._spec.name

    @property
    def _launched_plan(self) -> Plan:
        if self._plan is None:
            what = f"{type(self).__name__} {quoted(self._spec.name)} is not launched yet"
            raise usage_error(what, "Read this after the with block, or after launch()")
        return self._plan

    @property
    def session(self) -> str:
        """The name of the tmux session, Kubernetes namespace or Slurm job; UserError before the launch."""
        return self._launched_plan.physical_name

    def _options_under(self, parent: pulumi.Resource) -> pulumi.ResourceOptions:
        under = pulumi.ResourceOptions(parent=parent)
        return under if self._options is None else pulumi.ResourceOptions.merge(self._options, under)

    def _convert(self, setting: str, value: Any, kind: type[Any] | None = None) -> Any:
        with as_usage_error():
            converter = settings_of(kind or type(self._spec))[setting].convert
            return converter(value, f"{self.name}: {setting}")

    def _refuse_launched(self) -> None:
        """Refuse a change after the launch, which would be lost; a plain script may launch again."""
        if self._plan is not None and program_run.in_program():
            what = f"{type(self).__name__} {quoted(self._spec.name)} is changed after its launch"
            raise usage_error(what, "Make every change inside its with block, or before launch()")

    def _set(self, setting: str, parts: Iterable[Any] = (), **changes: Any) -> None:
        """Set a setting and record the caller's line, also for the named or numbered parts of it."""
        self._refuse_launched()
        where = caller()
        lines = {**self._spec.lines, setting: where, **{part_key(setting, part): where for part in parts}}
        self._spec = dataclasses.replace(self._spec, lines=lines, **changes)


class MemberBuilder(Builder[MemberSpec]):
    """The calls that a process and a process group share.

    A later call replaces a single value or an equal key, such as a policy or a variable, and adds to a list,
    such as depends_on and mounts. pod_yml is a dict that is merged last into the
    pod's manifest.
    """

    pod_yml: Override

    @property
    def spec(self) -> MemberSpec:
        """The declaration, as a frozen value."""
        pod_yml = self._convert("pod_yml", without_empty_parts(self.pod_yml), PodSettings)
        return dataclasses.replace(self._spec, pod=dataclasses.replace(self._spec.pod, pod_yml=pod_yml))

    def set_env(self, name: str, value: EnvValue) -> None:
        """Set an environment variable.

        Args:
            name: The name of the variable.
            value: Text, a number, a path or an Output of Pulumi.

        Raises:
            UserError: The value has a wrong type.

        Example:
            process.set_env("LR", 0.1)
        """
        self.set_envs({name: value})

    def set_envs(self, env: Env) -> None:
        """Set environment variables.

        Args:
            env: The values by name; see set_env().

        Raises:
            UserError: A value has a wrong type.

        Example:
            process.set_envs({"SEED": 1, "DEVICE": "cpu"})
        """
        added = self._convert("env", env)
        self._set("env", added, env={**self._spec.env, **added})

    def depends_on(
        self,
        *others: Names,
        condition: Condition = "ready",
        timeout: float | str | None = None,
        restart_with: bool = False,
    ) -> None:
        """Delay the start until other processes have reached a condition.

        On a group, all its processes wait. A dependency on a group waits for all its processes.

        Args:
            others: Processes and process groups of this experiment, or their names, such as "agents/0".
            condition: "started"; "ready"; "completed", with exit code 0; or "ended", with any exit code.
            timeout: The time after which the wait fails, in seconds or as "10m"; by default 600 for started
                and ready, and no limit for completed and ended.
            restart_with: Whether a restart of a dependency also restarts this process.

        Raises:
            UserError: An argument has a wrong type, or the condition is unknown.

        Example:
            train.depends_on(prepare, condition="completed")
        """
        with as_usage_error():
            setting = f"{self.name}: depends_on"
            added = tuple(
                dependency(other, setting, condition, timeout, restart_with=restart_with)
                for argument in others
                for other in (argument if isinstance(argument, (list, tuple)) else (argument,))
            )
        self._set("depends_on", depends_on=(*self._spec.depends_on, *added))

    def image_pull_policy(self, policy: PullPolicy) -> None:
        """Set when Kubernetes pulls the image.

        Args:
            policy: "Always", "IfNotPresent" or "Never".

        Raises:
            UserError: The policy is unknown.

        Example:
            process.image_pull_policy("Always")
        """
        self._set("image_pull_policy", image_pull_policy=self._convert("image_pull_policy", policy))

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
        constraint: str | None = None,
        partition: str | None = None,
    ) -> None:
        """Choose machines. On a group, the amounts are for all its processes together.

        Args:
            pool: The node pool; by default the cheapest whose machines have what the other arguments request.
            per_machine: A share of a machine, so that this many processes fit on one and no more.
            cpu: Cores, such as 2, 0.5 or "500m".
            memory: Bytes, such as 8e9 or "8Gi".
            gpu: The number of GPUs.
            gpu_type: The type of the GPUs, such as "v100".
            spot: Whether the cloud may take the machines away.
            constraint: Features that the nodes must have, on Slurm.
            partition: The partition of the nodes, on Slurm; by default that of the stack.

        Raises:
            UserError: A value has a wrong type.

        Example:
            process.place(gpu=1, gpu_type="v100")
        """
        with as_usage_error():
            place = Place(pool, per_machine, cpu, memory, gpu, gpu_type, spot, constraint, partition)
        changes = {name: value for name, value in vars(place).items() if value is not None}
        self._set("place", changes, place=dataclasses.replace(self._spec.place, **changes))

    # pod level

    def node_selector(self, key: str, value: Value) -> None:
        """Run only on nodes with this label.

        Args:
            key: The name of the label.
            value: The value that the node has.

        Raises:
            UserError: The value has a wrong type.

        Example:
            process.node_selector("gpu-type", "a100")
        """
        self._add_to_pod("node_selector", {key: value})

    def add_toleration(
        self,
        key: str | None = None,
        operator: Operator | None = None,
        value: str | None = None,
        effect: Effect | None = None,
        toleration_seconds: int | None = None,
    ) -> None:
        """Allow nodes that have a taint; without an effect, every effect.

        Args:
            key: The key of the taint.
            operator: "Equal" (by default) compares key and value, "Exists" only the key.
            value: The value of the taint.
            effect: "NoSchedule", "PreferNoSchedule" or "NoExecute".
            toleration_seconds: How long the pod stays after a NoExecute taint is added; for ever by default.

        Raises:
            UserError: A value has a wrong type.

        Example:
            process.add_toleration(key="gpu", operator="Exists", effect="NoSchedule")
        """
        with as_usage_error():
            toleration = Toleration(key, operator, value, effect, toleration_seconds)
        tolerations = self._spec.pod.tolerations
        pod = dataclasses.replace(self._spec.pod, tolerations=(*tolerations, toleration))
        self._set("tolerations", [len(tolerations)], pod=pod)

    def restart_policy(self, policy: RestartPolicy) -> None:
        """Set when to restart the process after it has ended.

        Args:
            policy: "Always", "OnFailure" (an exit code other than 0, or a signal) or "Never".

        Raises:
            UserError: The policy is unknown.

        Example:
            process.restart_policy("OnFailure")
        """
        restart_policy = self._convert("restart_policy", policy, PodSettings)
        pod = dataclasses.replace(self._spec.pod, restart_policy=restart_policy)
        self._set("restart_policy", pod=pod)

    def add_label(self, key: str, value: Value) -> None:
        """Label the pod.

        Args:
            key: The name of the label.
            value: The value of the label.

        Raises:
            UserError: The value has a wrong type.

        Example:
            process.add_label("team", "rl")
        """
        self._add_to_pod("labels", {key: value})

    def add_labels(self, labels: Variables | None = None, **more: Value) -> None:
        """Label the pod.

        Args:
            labels: The values by name.
            more: Further labels, whose names are Python names.

        Raises:
            UserError: A value has a wrong type.

        Example:
            process.add_labels({"team": "rl"}, stage="test")
        """
        self._add_to_pod("labels", {**self._convert("labels", labels, PodSettings), **more})

    def _add_to_pod(self, setting: str, entries: Any) -> None:
        added = self._convert(setting, entries, PodSettings)
        merged = {**getattr(self._spec.pod, setting), **added}
        self._set(setting, added, pod=dataclasses.replace(self._spec.pod, **{setting: merged}))

    # mounts

    def mount_nfs(self, server: str, path: str, mount_path: str, name: str | None = None) -> None:
        """Mount a folder of an NFS server.

        Args:
            server: The name or address of the server.
            path: The folder on the server.
            mount_path: The folder in the container.
            name: The name of the volume, chosen by default.

        Raises:
            UserError: A value has a wrong type.

        Example:
            process.mount_nfs("10.0.0.2", "/data", "/mnt/data")
        """
        self._mount(NfsMount, server=server, path=path, mount_path=mount_path, name=name)

    def mount_secret(
        self, secret_name: str, mount_path: str, default_mode: int | None = None, name: str | None = None
    ) -> None:
        """Mount a Secret of the namespace as files.

        Args:
            secret_name: The Secret, which you create.
            mount_path: The folder of its files in the container.
            default_mode: The mode of the files, 0o644 by default.
            name: The name of the volume, chosen by default.

        Raises:
            UserError: A value has a wrong type.

        Example:
            process.mount_secret("wandb", "/etc/wandb", default_mode=0o400)
        """
        self._mount(
            SecretMount, secret_name=secret_name, mount_path=mount_path, default_mode=default_mode, name=name
        )

    def mount_git_repo(
        self, repository: str, revision: str, mount_path: str, name: str | None = None
    ) -> None:
        """Mount a git repository, cloned before the process starts.

        Args:
            repository: The URL of the repository.
            revision: A branch, tag or commit.
            mount_path: The folder in the container.
            name: The name of the volume, chosen by default.

        Raises:
            UserError: A value has a wrong type.

        Example:
            process.mount_git_repo("https://github.com/me/rl.git", "main", "/code")
        """
        self._mount(GitRepoMount, repository=repository, revision=revision, mount_path=mount_path, name=name)

    def mount_host_path(
        self, path: str, mount_path: str, hostpath_type: str = "", name: str | None = None
    ) -> None:
        """Mount a file or folder of the node; requires `symphony:podSecurity: privileged`.

        Args:
            path: The path on the machine.
            mount_path: The path in the container.
            hostpath_type: Kubernetes' hostPath.type, such as "Directory"; unchecked by default.
            name: The name of the volume, chosen by default.

        Raises:
            UserError: A value has a wrong type.

        Example:
            process.mount_host_path("/mnt/disks/ssd0", "/scratch")
        """
        self._mount(HostPathMount, path=path, mount_path=mount_path, hostpath_type=hostpath_type, name=name)

    def mount_empty_dir(self, name: str, use_memory: bool, mount_path: str) -> None:
        """Mount an empty folder that is deleted with the pod.

        Args:
            name: The name of the volume.
            use_memory: Whether it is in memory instead of on disk.
            mount_path: The folder in the container.

        Raises:
            UserError: A value has a wrong type.

        Example:
            process.mount_empty_dir("scratch", use_memory=False, mount_path="/scratch")
        """
        self._mount(EmptyDirMount, name=name, use_memory=use_memory, mount_path=mount_path)

    def mount_shared_memory(self, name: str = "devshm") -> None:
        """Mount a /dev/shm in memory, larger than the usual 64 MiB, for data loaders.

        Args:
            name: The name of the volume.

        Raises:
            UserError: The name has a wrong type.

        Example:
            process.mount_shared_memory()
        """
        self._mount(SharedMemoryMount, name=name, mount_path="/dev/shm")

    def _mount(self, kind: type[Mount], **fields: Any) -> None:
        with as_usage_error():
            mount = kind(**fields, where=caller())
        self._set("mounts", mounts=(*self._spec.mounts, mount))
