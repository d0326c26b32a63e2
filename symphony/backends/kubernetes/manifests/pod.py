"""Renders the pods of a plan, one for each ungrouped process and each process group.

`pod()` returns the manifest of a pod, `_container()` the container of a process. The user's `pod_yml` and
`container_yml` are merged over them; only security settings and annotations are added after that.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from symphony.backends.kubernetes import supervisor
from symphony.backends.kubernetes.api.fields import mapping
from symphony.backends.kubernetes.manifests import labels, probes, workloads
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.names import MAX_NAME
from symphony.plan.plan import Plan, PlannedProcess
from symphony.plan.services import file_variables, used_variables
from symphony.spec.pod import (
    MOUNT_KINDS,
    EmptyDirMount,
    GitRepoMount,
    HostPathMount,
    Mount,
    NfsMount,
    PodSettings,
    SecretMount,
    SharedMemoryMount,
    Toleration,
)
from symphony.spec.process import Resources

SECRETS_VOLUME = "symphony-secrets"
SECRETS_FOLDER = "/etc/secrets"
CONFIGS_VOLUME = "symphony-configs"
CONFIGS_FOLDER = "/etc/configs"
# Names that are reserved: a volume of the user must not have them.
OWN_VOLUMES = (SECRETS_VOLUME, CONFIGS_VOLUME)
# Readable by the owner and by SECRETS_GROUP.
SECRETS_MODE = 0o440

_KIND_OF = {kind: name.replace("_", "-") for name, kind in MOUNT_KINDS.items()}
ROLE = "SYMPHONY_ROLE"
GPU = "nvidia.com/gpu"
# The uid of the user `nobody` in most images.
NOBODY = 65534

_CLONE = """
git init -q . || exit
git fetch -q --depth=1 -- "$1" "$2" && git checkout -qf FETCH_HEAD && exit
git fetch -q --tags -- "$1" '+refs/heads/*:refs/remotes/origin/*' && git checkout -qf "$2" --
""".strip()
# safe.directory: the folder belongs to root, and git refuses another user's folder.
_CLONE_ENV = {
    "HOME": "/tmp",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
# The labels and annotations of a pod that never change.
_CONSTANT = (labels.MANAGED_BY, labels.EXPERIMENT, labels.POD, labels.OWNER, labels.GROUP, *labels.EXISTS)
# The group of every process, which may read the secret files whatever user the image runs as.
SECRETS_GROUP = 2000
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
}
_SECCOMP = {"type": "RuntimeDefault"}
# Keys that identify entries of a list; mountPath first, since a volume may be mounted at several places.
_KEYS = ("mountPath", "name")


@dataclass(frozen=True)
class PlannedPod:
    """A pod of the plan.

    group: None for an ungrouped process. is_equal: whether its processes are equal workers, which share a
    rendezvous with processes of other pods.
    """

    name: str
    group: str | None
    processes: tuple[PlannedProcess, ...]
    settings: PodSettings
    is_equal: bool

    @property
    def restarts_with_others(self) -> bool:
        """Return whether a restart of another pod restarts it."""
        waits = [wait for process in self.processes for wait in process.waits_for]
        return self.is_equal or any(wait.restart_with for wait in waits)

    @property
    def mounts(self) -> list[Mount]:
        return [mount for process in self.processes for mount in process.mounts]


def pod_of(process: PlannedProcess) -> str:
    """Return the name in the plan of the pod of a process."""
    return process.group or process.name


def equal_pods(plan: Plan) -> list[list[str]]:
    """Return the planned names of the pods of each group of equal workers, unless one pod has all of them."""
    groups = (
        list(dict.fromkeys(pod_of(plan.process(path)) for path in paths)) for paths in plan.equal_workers
    )
    return [names for names in groups if len(names) > 1]


def pods_of(plan: Plan) -> Iterator[PlannedPod]:
    """Yield the pods in the order of the plan; ungrouped processes come first."""
    equal = {name for names in equal_pods(plan) for name in names}
    for process in plan.processes:
        if process.group is None:
            yield PlannedPod(process.name, None, (process,), process.pod, process.name in equal)
    for group in plan.groups:
        members = tuple(plan.process(path) for path in group.paths)
        yield PlannedPod(group.name, group.name, members, group.pod, group.name in equal)


def controller(planned: PlannedPod, settings: Settings) -> str:
    """Return the kind that creates a pod; a pod that restarts with another needs a Job."""
    return workloads.JOB if planned.restarts_with_others else settings.controller


def pod(
    plan: Plan, planned: PlannedPod, settings: Settings, owner: str, attempt: str, key: bytes
) -> dict[str, Any]:
    """Return the manifest of a pod.

    Args:
        plan: The plan that it belongs to.
        planned: The pod.
        settings: The settings of the stack.
        owner: The owner id of the stack.
        attempt: The attempt of the pod; the engine replaces a pod of another attempt.
        key: The key of the digests of secret_env.
    """
    spec: dict[str, Any] = {
        "restartPolicy": planned.settings.restart_policy or "Never",
        "nodeSelector": dict(planned.settings.node_selector),
        "tolerations": [_toleration(toleration) for toleration in planned.settings.tolerations],
        "imagePullSecrets": [{"name": name} for name in settings.pull_secrets],
        "initContainers": _clones(planned, settings),
        "containers": [_container(plan, process, settings, key) for process in planned.processes],
        "schedulingGates": _gates(planned),
        "volumes": [*_volumes(planned.mounts), *_file_volumes(plan, settings)],
        "securityContext": {
            "seccompProfile": _SECCOMP,
            **({"fsGroup": SECRETS_GROUP} if plan.secrets else {}),
        },
    }
    name = settings.object_name(planned.name)
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": plan.physical_name,
            "labels": {
                **planned.settings.labels,
                **labels.of_pod(settings.shared_as or plan.physical_name, name),
            },
            "annotations": {
                **labels.EXISTS,
                labels.OWNER: owner,
                **({labels.GROUP: planned.group} if planned.group else {}),
                **_pool(plan, planned),
                **_log_probes(planned),
            },
        },
        "spec": {
            **_drop_unset(spec),
            # Processes do not talk to the API server, and service links would be variables that depend on
            # other objects in the namespace.
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": settings.grace_seconds,
        },
    }
    merged = merge(manifest, planned.settings.pod_yml)
    secured = {**merged, "spec": _secure_pod(merged["spec"], settings)}
    names = [process.name for process in planned.processes]
    if len(secured["spec"]["containers"]) > len(names):
        secured = labels.annotated(secured, {labels.PROCESSES: ",".join(names)})
    return labels.annotated(secured, {labels.DIGEST: _digest(secured), labels.ATTEMPT: attempt})


def _pool(plan: Plan, planned: PlannedPod) -> dict[str, str]:
    """Return annotations with the planned pool of the pod, for `why`."""
    pool = plan.placement.pool_of.get(planned.name) if plan.placement else None
    if pool is None:
        return {}
    maximum = {} if pool.max is None else {labels.POOL_MAX: str(pool.max)}
    return {labels.POOL: pool.name, **maximum}


def _log_probes(planned: PlannedPod) -> dict[str, str]:
    """Return the annotation with the patterns of readiness probes by log, for the supervisor."""
    probes_by_process = {process.name: process.readiness_probe for process in planned.processes}
    patterns = {name: probe.log for name, probe in probes_by_process.items() if probe and probe.log}
    return {supervisor.LOG_PROBES: json.dumps(patterns)} if patterns else {}


def _secure_pod(spec: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the spec with the security settings of the experiment, also for containers the user added."""
    lists = {name: spec[name] for name in ("containers", "initContainers") if name in spec}
    return {
        **spec,
        **{
            name: [_secure(container, settings) for container in containers]
            for name, containers in lists.items()
        },
        "automountServiceAccountToken": spec.get("automountServiceAccountToken", False),
        "securityContext": {"seccompProfile": _SECCOMP, **spec.get("securityContext", {})},
    }


def _gates(planned: PlannedPod) -> list[dict[str, str]]:
    """Return the scheduling gate of a pod that waits for others; the supervisor removes it."""
    waits = planned.is_equal or any(process.waits_for for process in planned.processes)
    return [{"name": supervisor.GATE}] if waits else []


def _digest(manifest: Mapping[str, Any]) -> str:
    """Return the digest of the spec without gates, so that a changed order of starts restarts nothing.

    For a pod with a gate, its labels and annotations count too: Pulumi writes a whole pod even for a changed
    label, and the API server refuses to restore a removed gate.
    """
    spec: Mapping[str, Any] = manifest["spec"]
    without_gates = {name: field for name, field in spec.items() if name != "schedulingGates"}
    metadata = manifest["metadata"]
    texts = {**metadata["labels"], **metadata["annotations"]}
    variable = {name: text for name, text in texts.items() if name not in _CONSTANT}
    has_gate = len(without_gates) < len(spec)
    return labels.digest([without_gates, variable] if variable and has_gate else without_gates)


def _clones(planned: PlannedPod, settings: Settings) -> list[dict[str, Any]]:
    """Return an init container for each git repository that the pod mounts."""
    sets_user = "runAsUser" in mapping(planned.settings.pod_yml, "spec", "securityContext")
    repositories = {volume_name(mount): mount for mount in planned.mounts if isinstance(mount, GitRepoMount)}
    return [
        _clone(volume, repository, settings, sets_user=sets_user)
        for volume, repository in repositories.items()
    ]


def _toleration(toleration: Toleration) -> dict[str, str | int]:
    fields = asdict(toleration)
    fields["tolerationSeconds"] = fields.pop("toleration_seconds")
    return {name: value for name, value in fields.items() if value is not None}


def _container(plan: Plan, process: PlannedProcess, settings: Settings, key: bytes) -> dict[str, Any]:
    """Return the container of a process.

    The variables of the services that the process uses are part of it, so that the process restarts if such
    a service moves. The variables of all services come from a ConfigMap, so that other services can change
    without replacing the pod, and every process sees all services that exist when it starts.
    """
    mounts = [{"name": volume_name(mount), "mountPath": mount.mount_path} for mount in process.mounts]
    rendered: dict[str, Any] = {
        "name": process.name,
        "image": process.image,
        "imagePullPolicy": process.image_pull_policy,
        "command": [escape_variables(argument) for argument in _command(process)],
        "args": [escape_variables(argument) for argument in process.args],
        "workingDir": process.start_dir,
        "env": [
            *_env(
                {
                    ROLE: process.name,
                    # So that a Python program that is killed has flushed its output.
                    "PYTHONUNBUFFERED": "1",
                    **process.env,
                    **used_variables(plan, process),
                    **file_variables(plan, SECRETS_FOLDER, CONFIGS_FOLDER),
                }
            ),
            *_secret_env(process, settings, key),
        ],
        "envFrom": [{"configMapRef": {"name": settings.object_name(labels.SERVICES_MAP)}}],
        "resources": _drop_unset(
            {
                "requests": _amounts(process.resource_request),
                "limits": _amounts(process.resource_limit),
            }
        ),
        "startupProbe": probes.listens(plan, process),
        "readinessProbe": probes.probe(plan, process.readiness_probe),
        "livenessProbe": probes.probe(plan, process.liveness_probe),
        "volumeMounts": [*mounts, *_file_mounts(plan)],
        "securityContext": _security(settings),
        # Puts the last lines of a failed process into its status, so that its log need not be fetched.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return merge(_drop_unset(rendered), process.container_yml)


def _command(process: PlannedProcess) -> tuple[str, ...]:
    """Return the command of the container; shell lines are run by the image's sh."""
    lines = "\n".join((*process.preamble_cmds, *process.cmds))
    return ("sh", "-c", lines) if process.cmds else process.command


def _clone(volume: str, repository: GitRepoMount, settings: Settings, *, sets_user: bool) -> dict[str, Any]:
    """Return the init container that clones a git repository into a volume.

    Args:
        volume: The name of the volume.
        repository: The repository to clone.
        settings: The settings of the stack.
        sets_user: Whether pod_yml sets the user of the pod.
    """
    context = _security(settings)
    if context.get("runAsNonRoot") and not sets_user:
        # Images with git run as root by default.
        context["runAsUser"] = NOBODY
    return {
        "name": f"clone-{volume}"[:MAX_NAME].rstrip("-"),
        "image": settings.git_image,
        "command": [
            "sh",
            "-c",
            _CLONE,
            "clone",
            escape_variables(repository.repository),
            escape_variables(repository.revision),
        ],
        "workingDir": "/repository",
        "env": _env(_CLONE_ENV),
        "volumeMounts": [{"name": volume, "mountPath": "/repository"}],
        "securityContext": context,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _security(settings: Settings) -> dict[str, Any]:
    """Return the security context that the experiment's Pod Security level requires."""
    return dict(RESTRICTED) if settings.pod_security == "restricted" else {"allowPrivilegeEscalation": False}


def _secure(container: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the container with the experiment's security context; the user's fields win."""
    declared: Mapping[str, Any] = container.get("securityContext") or {}
    fields = {name: field for name, field in declared.items() if field is not None}
    context = {**_security(settings), **fields}
    if declared.get("privileged"):
        # The API server refuses both together.
        context.pop("allowPrivilegeEscalation")
    return {**container, "securityContext": context}


def escape_variables(text: str) -> str:
    """Return a text escaped for Kubernetes, which would replace $(NAME) with the value of a variable.

    >>> escape_variables("cost: $5"), escape_variables("$(HOME) $$")
    ('cost: $5', '$$(HOME) $$$$')
    """
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def _drop_unset(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, [], {}, "")}


def _env(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": escape_variables(value)} for name, value in values.items()]


def _secret_env(process: PlannedProcess, settings: Settings, key: bytes) -> Iterator[dict[str, Any]]:
    """Yield variables that refer to a Secret by digest, so that a new value changes the pod."""
    secret = settings.object_name(labels.SECRET_ENV)
    for name, value in process.secret_env.items():
        reference = {"name": secret, "key": value.digest(key)}
        yield {"name": name, "valueFrom": {"secretKeyRef": reference}}


def _amounts(resources: Resources) -> dict[str, str]:
    amounts = {"cpu": resources.cpu, "memory": resources.memory, GPU: resources.gpu}
    return {name: str(amount) for name, amount in amounts.items() if amount is not None}


def volume_name(mount: Mount) -> str:
    """Return the name of the volume: the user's, else a name derived from its source.

    Mounts with the same name and source share a volume.
    """
    if mount.name:
        return mount.name
    names = {field.name for field in dataclasses.fields(mount)} - {"mount_path", "where"}
    source = {name: getattr(mount, name) for name in names}
    text = json.dumps([type(mount).__name__, source], sort_keys=True)
    return f"{_KIND_OF[type(mount)]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _volumes(mounts: Iterable[Mount]) -> list[dict[str, Any]]:
    """Return a volume for each name, in the order of first use."""
    first: dict[str, Mount] = {}
    for mount in mounts:
        first.setdefault(volume_name(mount), mount)
    return [{"name": name, **volume_source(mount)} for name, mount in first.items()]


def volume_source(mount: Mount) -> dict[str, Any]:
    """Return the source of a volume, in the fields of Kubernetes."""
    match mount:
        case NfsMount(server=server, path=path):
            return {"nfs": {"server": server, "path": path}}
        case SecretMount(secret_name=secret, default_mode=mode):
            return {"secret": {"secretName": secret} | ({} if mode is None else {"defaultMode": mode})}
        case HostPathMount(path=path, hostpath_type=kind):
            return {"hostPath": {"path": path} | ({"type": kind} if kind else {})}
        case EmptyDirMount(use_memory=True) | SharedMemoryMount():
            return {"emptyDir": {"medium": "Memory"}}
        case _:
            # A git repository is cloned into an empty folder by an init container.
            return {"emptyDir": {}}


def _file_volumes(plan: Plan, settings: Settings) -> list[dict[str, Any]]:
    """Return the volumes with the secret and config files of the experiment."""
    volumes: list[dict[str, Any]] = []
    if plan.secrets:
        secret = {"secretName": settings.object_name(labels.SECRETS), "defaultMode": SECRETS_MODE}
        volumes.append({"name": SECRETS_VOLUME, "secret": secret})
    if plan.configs:
        volumes.append({"name": CONFIGS_VOLUME, "configMap": {"name": settings.object_name(labels.CONFIGS)}})
    return volumes


def _file_mounts(plan: Plan) -> list[dict[str, Any]]:
    """Return the volumeMounts of the secret and config files, for every container."""
    kinds = ((plan.secrets, SECRETS_VOLUME, SECRETS_FOLDER), (plan.configs, CONFIGS_VOLUME, CONFIGS_FOLDER))
    return [{"name": name, "mountPath": folder, "readOnly": True} for files, name, folder in kinds if files]


def merge(rendered: Any, override: Any) -> Any:
    """Return a manifest with the user's override merged over it.

    Mappings merge by key and lists of objects by name; None removes a key; anything else replaces.

    >>> merge({"a": [{"name": "x", "image": "i"}], "b": 1}, {"a": [{"name": "x", "tty": True}], "b": None})
    {'a': [{'name': 'x', 'image': 'i', 'tty': True}]}
    """
    if isinstance(rendered, Mapping) and isinstance(override, Mapping):
        fields, overrides = cast("Mapping[str, Any]", rendered), cast("Mapping[str, Any]", override)
        merged = {
            name: merge(fields[name], field) if name in fields else field for name, field in overrides.items()
        }
        return {name: field for name, field in {**fields, **merged}.items() if field is not None}
    for key in _KEYS:
        if _is_named(rendered, key) and _is_named(override, key):
            return _merge_named(
                cast("list[dict[str, Any]]", rendered), cast("list[dict[str, Any]]", override), key
            )
    return override


def _merge_named(
    rendered: list[dict[str, Any]], override: list[dict[str, Any]], key: str
) -> list[dict[str, Any]]:
    by_name = {entry[key]: entry for entry in rendered}
    for entry in override:
        name = entry[key]
        by_name[name] = merge(by_name[name], entry) if name in by_name else entry
    return list(by_name.values())


def _is_named(field: Any, key: str) -> bool:
    if not isinstance(field, list) or not field:
        return False
    entries = cast("list[Any]", field)
    return all(isinstance(mapping(entry).get(key), str) for entry in entries)
