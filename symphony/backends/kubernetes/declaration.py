"""Checks a declaration for problems that a dry run of its pods would not show.

In `pod_yml` and `container_yml` it checks the fields that symphony sets, those that weaken the isolation of a
container, and the shapes that merging needs; the API server checks the rest (dry_run.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from symphony.backends.kubernetes.api.fields import Values, mapping, texts
from symphony.backends.kubernetes.manifests import labels, pod, workloads
from symphony.backends.kubernetes.manifests.render import REFUSED_CHARACTERS
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.names import MAX_NAME, as_label, quoted
from symphony.plan.problems import Problem
from symphony.plan.rules import MAX_TEXT, dependencies_of
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec, path_of
from symphony.spec.location import Location
from symphony.spec.pod import GitRepoMount, HostPathMount, Mount, NfsMount
from symphony.spec.process import ProcessSpec
from symphony.spec.setting import Checked, explicit_settings

Problems = Iterator[Problem]
_Part = ProcessSpec | ProcessGroupSpec

# etcd accepts 1.5 MiB a request, including the fields that the server adds to a pod.
MAX_POD = 1_000_000
# The API server's limit for the files in a Secret or a ConfigMap, in bytes before their encoding in base64.
MAX_FILES = 1_048_576
_RESERVED = re.compile(r"default|kube-.*|gke-.*|gmp-.*|istio-.*|cert-manager|kubernetes-dashboard")
_IMAGE = re.compile(
    r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:\d+)?/)?"
    r"[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_USE_A_FILE = "pass it in a file with configs= or secrets=: a Kubernetes manifest cannot hold it"
# Settings with checks of their own: the parts of a spec, and manifests.
_CHECKED_APART = ("pod", "processes", "groups", "pod_yml", "container_yml")
_RESERVED_KEYS = (labels.MANAGED_BY, *labels.EXISTS)
# The only capability that the Pod Security level "restricted" allows.
_HARMLESS = ("NET_BIND_SERVICE",)
# These weaken the isolation of a container; `privileged` is the Pod Security level that allows them.
_DANGEROUS = (
    *("privileged", "hostNetwork", "hostPID", "hostIPC", "hostPath", "hostPort", "procMount"),
    *("allowPrivilegeEscalation", "automountServiceAccountToken", "serviceAccountToken"),
)
_HARMLESS_VALUES: tuple[Any, ...] = (False, None, 0, "", "Default")


class _Named(msgspec.Struct):
    name: str


class _VolumeMount(_Named):
    mountPath: str


class _ContainerYml(msgspec.Struct, kw_only=True):
    env: list[_Named] | None = None
    volumeMounts: list[_VolumeMount] | None = None
    securityContext: dict[str, Any] | None = None


class _Container(_ContainerYml, kw_only=True):
    name: str


class _Spec(msgspec.Struct):
    containers: list[_Container] | None = None
    initContainers: list[_Container] | None = None
    securityContext: dict[str, Any] | None = None
    terminationGracePeriodSeconds: int | None = None


class _Metadata(msgspec.Struct):
    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {}


class _PodYml(msgspec.Struct, forbid_unknown_fields=True):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)


def check(spec: ExperimentSpec, settings: Settings, namespace: str, sizes: Mapping[str, int]) -> Problems:
    """Yield every problem.

    Args:
        spec: The declaration.
        settings: The settings of the stack.
        namespace: The namespace of the experiment.
        sizes: The size of each secret and config file in bytes.
    """
    if _RESERVED.fullmatch(namespace):
        remedy = "rename the stack, or set symphony:namespace to another"
        yield Problem(f"the namespace {quoted(namespace)} belongs to the cluster", remedy, (spec.where,))
    if settings.shared_as:
        yield from _shared(spec, settings)
    yield from _files("secrets", "secret file", "Secret", spec, sizes)
    yield from _files("configs", "config file", "ConfigMap", spec, sizes)
    yield from _image("the experiment", spec.image, spec.where)
    yield from _order(spec, settings)
    for part_name, part in spec.parts():
        yield from _pod_settings(part_name, part, settings)
        for name in ("constraint", "partition"):
            if getattr(part.place, name):
                what = f"{part_name} is placed with a {name}, which only Slurm supports"
                yield Problem(what, "use node_selector on Kubernetes", (part.at(f"place {name}"),))
    for part_name, owner in spec.owners():
        yield from _characters(part_name, owner)
    for group, process in spec.members():
        path = path_of(group, process)
        yield from _image(path, process.image, process.at("image"))
        for use in (*process.binds, *process.exposes):
            if (label := as_label(use.name)) and not label[0].isalpha():
                what = f"{path} serves {quoted(use.name)}, which begins with a digit"
                yield Problem(
                    what, "rename the service: a Kubernetes Service must begin with a letter", (use.where,)
                )
        yield from _yml(path, "container_yml", process.container_yml, process, settings)
    for process in spec.processes:
        yield from _volumes(process.name, process.mounts, spec)
        yield from _size(process.name, (process,), spec)
    for group in spec.groups:
        mounts = [*group.mounts, *(mount for process in group.processes for mount in process.mounts)]
        yield from _volumes(f"process group {group.name}", mounts, spec)
        yield from _size(f"process group {group.name}", group.processes, spec)


def _order(spec: ExperimentSpec, settings: Settings) -> Problems:
    """Yield the waits and ends that the supervisor cannot carry out."""
    for group, process in spec.members():
        part = group or process
        for wait in dependencies_of(group, process):
            if wait.restart_with and part.pod.restart_policy == "Always":
                what = f'{part.name} restarts with {wait.on}, which excludes restart_policy "Always"'
                yield Problem(what, f'set restart_policy of {part.name} to "OnFailure"', (wait.where,))
        rendezvous = process.rendezvous if group is None else None
        is_first = rendezvous is not None and rendezvous.size > 1 and rendezvous.rank == 0
        if is_first and part.pod.restart_policy == "Always":
            what = (
                f'{process.name} sets restart_policy "Always", but the pods of a rendezvous restart together'
            )
            yield Problem(what, 'set restart_policy to "OnFailure"', (process.at("restart_policy"),))
    if settings.controller == workloads.JOB:
        for setting in ("primary", "stop_after", "idle_after"):
            if getattr(spec, setting):
                what = f"the experiment sets {setting}, but Jobs would restart the stopped pods"
                yield Problem(what, "remove the setting symphony:controller", (spec.at(setting),))


def _shared(spec: ExperimentSpec, settings: Settings) -> Problems:
    """Yield invalid names in a shared namespace, where the experiment's name is their prefix."""
    prefix = settings.object_name("")
    if not re.fullmatch(r"[a-z][-a-z0-9]*", prefix):
        yield Problem(
            f"an experiment in a shared namespace cannot be called {quoted(settings.shared_as)}",
            'rename the stack: use lower-case letters, digits and "-", beginning with a letter; or set'
            " symphony:createNamespace to true",
            (spec.where,),
        )
    names = [(part.name, part.where) for part in (*spec.processes, *spec.groups)]
    uses = [use for _, process in spec.members() for use in (*process.binds, *process.exposes)]
    for name, where in (*names, *((use.name, use.where) for use in uses)):
        if len(prefix + name) > MAX_NAME:
            yield Problem(
                f"the name {quoted(prefix + name)} has {len(prefix + name)} characters, more than {MAX_NAME}",
                "shorten it, or the stack's name, which is its prefix in a shared namespace",
                (where,),
            )


def _files(setting: str, noun: str, kind: str, spec: ExperimentSpec, sizes: Mapping[str, int]) -> Problems:
    files: tuple[str, ...] = getattr(spec, setting)
    readable = {file: sizes[file] for file in files if file in sizes}
    total = sum(readable.values())
    if total > MAX_FILES:
        yield Problem(
            f"the {noun}s have {total} bytes, more than a Kubernetes {kind} can hold ({MAX_FILES})",
            f"remove some; the largest is {max(readable, key=readable.__getitem__)}",
            (spec.at(setting),),
        )
    for file in files:
        name = file.rpartition("/")[2]
        if not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", name) or name.startswith(".."):
            yield Problem(
                f"the {noun} {quoted(name)} has a name that a Kubernetes {kind} cannot hold",
                'rename it with at most 253 letters, digits, "-", "_" and ".", not ".." at the beginning',
                (spec.at(setting),),
            )


def _characters(part_name: str, owner: ExperimentSpec | _Part) -> Problems:
    """Yield the texts that contain a character that Pulumi's plugin would refuse or change."""
    nested = () if isinstance(owner, ExperimentSpec) else explicit_settings(owner.pod)
    for setting, value in (*explicit_settings(owner), *nested):
        if setting.name in _CHECKED_APART:
            continue
        is_env = setting.name == "env"
        texts = owner.env.items() if is_env else ((setting.name, text) for text in _strings(value))
        for name, text in texts:
            if character := _refused_character(text):
                what = f"{'env ' if is_env else ''}{name} of {part_name} contains the character"
                where = owner.at(f"env {name}" if is_env else name)
                yield Problem(f"{what} {character}: {quoted(text, 30)}", _USE_A_FILE, (where,))


def _strings(value: Any) -> Iterator[str]:
    """Yield every text in the value of a setting."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _strings([*cast("Values", value).items()])
    elif isinstance(value, (tuple, list)):
        for entry in cast("list[Any]", value):
            yield from _strings(entry)
    elif isinstance(value, Checked):
        yield from _strings([inner for _, inner in explicit_settings(value)])


def _refused_character(text: str) -> str:
    match = REFUSED_CHARACTERS.search(text)
    return f"U+{ord(match[0]):04X}" if match else ""


def _pod_settings(part_name: str, part: _Part, settings: Settings) -> Problems:
    for key in part.pod.labels:
        if key.startswith("symphony/") or key == labels.MANAGED_BY:
            what = f"{part_name} sets the label {quoted(key)}, which symphony itself sets"
            yield Problem(what, "use another label", (part.at(f"labels {key}"),))
    if settings.controller != workloads.POD and part.pod.restart_policy == "Always":
        what = (
            f'{part_name} sets restart_policy to "Always", which a pod of a {settings.controller} cannot have'
        )
        yield Problem(
            what,
            'set "OnFailure", or remove symphony:controller',
            (part.at("restart_policy"),),
        )
    for mount in part.mounts:
        for what, remedy in _mount_mistakes(mount, settings):
            yield Problem(f"{part_name} mounts {what}", remedy, (mount.where,))
    yield from _yml(part_name, "pod_yml", part.pod.pod_yml, part, settings)


def _mount_mistakes(mount: Mount, settings: Settings) -> Iterator[tuple[str, str]]:
    match mount:
        case NfsMount() if settings.pod_security == "restricted":
            yield (
                "an NFS volume",
                'the Pod Security level "restricted" forbids it; use a PersistentVolumeClaim in pod_yml',
            )
        case HostPathMount() if settings.pod_security != "privileged":
            yield "a hostPath volume", "allow it with symphony:podSecurity: privileged"
        case GitRepoMount(repository=repository, revision=revision) if not repository or not revision:
            what = f"the git repository {quoted(repository)} at revision {quoted(revision)}"
            yield what, "set both the repository and the revision"
        case _:
            pass


def _volumes(part_name: str, mounts: list[Mount] | tuple[Mount, ...], spec: ExperimentSpec) -> Problems:
    """Yield the mounts of a pod that clash with each other or with the experiment's files."""
    by_name: dict[str, Mount] = {}
    for mount in mounts:
        name = pod.volume_name(mount)
        if name in pod.OWN_VOLUMES:
            what = f"{part_name} mounts a volume called {quoted(name)}, a name that symphony uses"
            yield Problem(what, "rename the volume", (mount.where,))
        other = by_name.setdefault(name, mount)
        if pod.volume_source(other) != pod.volume_source(mount) or type(other) is not type(mount):
            yield Problem(
                f"{part_name} has two different volumes called {quoted(name)}",
                "rename one of them",
                (other.where, mount.where),
            )
        for setting, folder in (("secrets", pod.SECRETS_FOLDER), ("configs", pod.CONFIGS_FOLDER)):
            if getattr(spec, setting) and mount.mount_path.rstrip("/") == folder:
                yield Problem(
                    f"{part_name} mounts at {folder}, the folder of the experiment's {setting}",
                    "set another mount_path",
                    (mount.where, spec.at(setting)),
                )


def _size(part_name: str, processes: Sequence[ProcessSpec], spec: ExperimentSpec) -> Problems:
    """Yield texts that are too large for Linux or etcd, which a dry run does not check."""
    size = 0
    for process in processes:
        script = len("\n".join((*process.preamble_cmds, *process.cmds)).encode("utf-8", "surrogatepass"))
        if script > MAX_TEXT:
            what = f"cmds and preamble_cmds of {process.name} have {script} bytes; a pod allows {MAX_TEXT}"
            yield Problem(what, "put the lines into a script in the image", (process.at("cmds"),))
        texts = [*(process.command or ()), *process.args, *process.cmds, *process.preamble_cmds]
        texts += [text for pair in {**spec.env, **process.env}.items() for text in pair]
        size += sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    if size > MAX_POD:
        what = f"{part_name} has {size} bytes of commands and variables, more than a pod can hold ({MAX_POD})"
        yield Problem(what, "pass them in files with configs= or secrets=", (processes[0].where,))


def _yml(part_name: str, setting: str, yml: Values, part: _Part, settings: Settings) -> Problems:
    is_pod = setting == "pod_yml"
    reserved = _reserved_fields(yml) if is_pod else ["sets name"] * ("name" in yml)
    mistakes = [(what, "remove it: symphony sets it") for what in reserved]
    try:
        msgspec.convert(yml, _PodYml if is_pod else _ContainerYml)
    except (msgspec.ValidationError, RecursionError) as error:
        what = str(error).replace("`$.", "`")
        mistakes.append((f"has a wrong field: {what}", "see `kubectl explain pod` for its type"))
    if settings.pod_security != "privileged":
        remedy = "remove it, or allow it with symphony:podSecurity: privileged"
        mistakes += [(f"asks for {what}", remedy) for what in sorted(set(_dangers(yml)))]
    if character := _refused_character(json.dumps(yml, ensure_ascii=False, default=str)):
        mistakes.append((f"contains the character {character}", _USE_A_FILE))
    for what, remedy in mistakes:
        yield Problem(f"{setting} of {part_name} {what}", remedy, (part.at(setting),))


def _reserved_fields(yml: Values) -> Iterator[str]:
    """Yield the fields of a pod_yml that users must not change."""
    metadata, spec = mapping(yml, "metadata"), mapping(yml, "spec")
    yield from (f"sets metadata.{name}" for name in ("name", "namespace") if name in metadata)
    for name in ("labels", "annotations"):
        for key in mapping(metadata, name):
            if str(key).startswith("symphony/") or key in _RESERVED_KEYS:
                yield f"sets metadata.{name} {quoted(key)}"
    if "containers" in spec and spec["containers"] in (None, []):
        yield "has an empty spec.containers"


def _dangers(fields: Any) -> Iterator[str]:
    """Yield the fields that weaken the isolation of a container."""
    if isinstance(fields, Mapping):
        for name, value in cast("Values", fields).items():
            if name in _DANGEROUS and value not in _HARMLESS_VALUES:
                yield name
            if name == "seccompProfile" and mapping(value).get("type") == "Unconfined":
                yield "seccompProfile Unconfined"
            if name == "capabilities":
                added = texts(value, "add")
                yield from (f"capability {name}" for name in added if name not in _HARMLESS)
            yield from _dangers(value)
    for entry in cast("list[Any]", fields) if isinstance(fields, list) else []:
        yield from _dangers(entry)


def _image(part_name: str, image: object, where: Location) -> Problems:
    if isinstance(image, str) and not _IMAGE.fullmatch(image):
        remedy = "write it as [host/]name[:tag], with the name in lower-case letters"
        what = f"{part_name} has {quoted(image)} as image, which is not a valid name of an image"
        yield Problem(what, remedy, (where,))
