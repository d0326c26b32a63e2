"""What Kubernetes would refuse of a declaration, found before anything starts. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from symphony.backends.kubernetes.manifests import controllers, labels, volumes
from symphony.backends.kubernetes.settings import Settings
from symphony.backends.kubernetes.validation import overrides
from symphony.placement.quantities import amount
from symphony.plan.names import MAX_NAME, as_label, shown
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec, path_of
from symphony.spec.location import Location
from symphony.spec.mounts import GitRepoMount, HostPathMount, Mount, NfsMount, SecretMount
from symphony.spec.pod import PodSettings, Toleration
from symphony.spec.process import ProcessSpec

Problems = Iterator[Problem]
_Thing = ProcessSpec | ProcessGroupSpec

# etcd takes 1.5 MiB a request; what the server adds to a pod has to fit as well.
MAX_POD = 1_000_000
# The API server's own limit of the contents of a Secret; a ConfigMap is counted with its base64.
MAX_FILES = 1_048_576
_RESERVED = re.compile(r"default|kube-.*|gke-.*|gmp-.*|istio-.*|cert-manager|kubernetes-dashboard")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_IMAGE = re.compile(
    r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:\d+)?/)?"
    r"[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_HOSTPATH_TYPES = (
    *("", "DirectoryOrCreate", "Directory", "FileOrCreate", "File"),
    *("Socket", "CharDevice", "BlockDevice"),
)


def check(spec: ExperimentSpec, settings: Settings, namespace: str, secrets: Mapping[str, int]) -> Problems:
    """Every problem, rule by rule; the types of the spec are right, secrets has the size of each file."""
    yield from _namespace(spec, namespace)
    yield from _shared(spec, settings)
    yield from _files("secrets", "secret file", "Secret", spec.secrets, spec, secrets)
    yield from _files("configs", "config file", "ConfigMap", spec.configs, spec, secrets)
    for who, part in spec.parts():
        yield from _pod_settings(who, part.pod, part.at)
        yield from _kept(who, part, settings)
        for mount in part.mounts:
            yield from _mount(who, mount, settings)
    for group, process in spec.members():
        yield from _process(path_of(group, process), process, spec)
        yield from _raw(path_of(group, process), "container_yml", process.container_yml, process, settings)
    for who, part in spec.parts():
        yield from _raw(who, "pod_yml", part.pod.pod_yml, part, settings)
    for process in spec.processes:
        yield from _pod(process.name, (process,), (), spec)
    for group in spec.groups:
        yield from _pod(f"process group {group.name}", group.processes, group.mounts, spec)


def _namespace(spec: ExperimentSpec, namespace: str) -> Problems:
    if _RESERVED.fullmatch(namespace):
        yield Problem(
            f"the namespace {shown(namespace)} belongs to the cluster",
            "rename the stack, or set symphony:namespace to another",
            (spec.where,),
        )


def _shared(spec: ExperimentSpec, settings: Settings) -> Problems:
    """Behind the name of the experiment a name has less room."""
    prefix = settings.named("")
    if not prefix:
        return
    if not re.fullmatch(r"[a-z][-a-z0-9]*", prefix):
        remedy = 'a letter first, then small letters, digits and "-", or set symphony:createNamespace to true'
        yield Problem(
            f"in a namespace that it shares, an experiment cannot be called {shown(settings.shared_as)}",
            f"name the stack otherwise: {remedy}",
            (spec.where,),
        )
    every = [(part.name, part.where) for part in (*spec.processes, *spec.groups)]
    uses = [use for _, process in spec.members() for use in (*process.binds, *process.exposes)]
    every += [(use.name, use.where) for use in uses]
    for name, where in every:
        if len(prefix + name) > MAX_NAME:
            yield Problem(
                f"{shown(prefix + name)} has {len(prefix + name)} letters, and {MAX_NAME} is the most",
                "give it or the stack a shorter name: in a namespace that experiments share it stands before",
                (where,),
            )


def _files(
    setting: str, noun: str, kind: str, files: tuple[str, ...], spec: ExperimentSpec, sizes: Mapping[str, int]
) -> Problems:
    own = {file: sizes[file] for file in files if file in sizes}
    total = sum(own.values())
    if total > MAX_FILES:
        largest = max(own, key=lambda file: own[file])
        yield Problem(
            f"the {noun}s have {total} bytes, more than the {MAX_FILES} of a Kubernetes {kind}",
            f"leave some out; the largest is {largest}",
            (spec.at(setting),),
        )
    for file in files:
        name = file.rpartition("/")[2]
        if not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", name) or name.startswith(".."):
            yield Problem(
                f"the {noun} is called {shown(name)}",
                f'in a Kubernetes {kind} its name may have letters, digits, "-", "_" and "."',
                (spec.at(setting),),
            )


def _process(path: str, process: ProcessSpec, spec: ExperimentSpec) -> Problems:
    for use in (*process.binds, *process.exposes):
        if (label := as_label(use.name)) and not label[0].isalpha():
            yield Problem(
                f"{path} serves {shown(use.name)}, which begins with a digit",
                "the name of a Kubernetes Service begins with a letter",
                (use.where,),
            )
    for who, image, where in (
        (path, process.image, process.at("image")),
        ("the experiment", spec.image, spec.where),
    ):
        if isinstance(image, str):
            yield from _image(who, image, (where,))
    yield from _resources(path, process)


def _resources(path: str, process: ProcessSpec) -> Problems:
    for kind in ("cpu", "memory"):
        wanted = amount(getattr(process.resource_request, kind))
        most = amount(getattr(process.resource_limit, kind))
        if wanted is not None and most is not None and wanted > most:
            request, limit = getattr(process.resource_request, kind), getattr(process.resource_limit, kind)
            yield Problem(
                f"{path} requests {kind} {request}, more than its limit of {limit}",
                "raise the limit or lower the request",
                (process.at(f"resource_request {kind}"), process.at(f"resource_limit {kind}")),
            )
    for setting in ("resource_request", "resource_limit"):
        for kind in ("cpu", "memory"):
            value = amount(getattr(getattr(process, setting), kind))
            if value is not None and value >= 2**63:
                yield Problem(
                    f"{path} sets {kind} to more than any machine has",
                    "lower it",
                    (process.at(f"{setting} {kind}"),),
                )


def _pod_settings(who: str, pod: PodSettings, at: Callable[[str], Location]) -> Problems:
    for setting, pairs in (("labels", pod.labels), ("node_selector", pod.node_selector)):
        for key, value in pairs.items():
            where = (at(f"{setting} {key}"),)
            if not is_key(key):
                yield Problem(
                    f"{who} has {setting} with the key {shown(key)}", "write it as [domain/]name", where
                )
            elif setting == "labels" and (key.startswith("symphony/") or key == labels.MANAGED_BY):
                yield Problem(
                    f"{who} sets the label {shown(key)}", "it is symphony's own; use another", where
                )
            if not is_label_value(value):
                remedy = 'at most 63 letters, digits, "-", "_", "."; the first and last a letter or digit'
                yield Problem(
                    f"{who} has {setting} {shown(key)} with the value {shown(value)}", remedy, where
                )
    for i, toleration in enumerate(pod.tolerations):
        for what, remedy in _toleration(toleration):
            yield Problem(f"{who} tolerates {what}", remedy, (at(f"tolerations {i}"),))


def _kept(who: str, part: _Thing, settings: Settings) -> Problems:
    """Yield what a Job cannot keep."""
    if settings.controller != controllers.POD and part.pod.restart_policy == "Always":
        yield Problem(
            f'{who} sets restart_policy to "Always", and what a {settings.controller} makes comes to an end',
            'set "OnFailure", or leave out the config symphony:controller',
            (part.at("restart_policy"),),
        )


def _toleration(toleration: Toleration) -> Iterator[tuple[str, str]]:
    exists = toleration.operator == "Exists"
    if toleration.key and not is_key(toleration.key):
        yield f"the key {shown(toleration.key)}", "write it as [domain/]name"
    if not toleration.key and not exists:
        yield "without a key", 'give a key, or operator="Exists" to tolerate every taint'
    if exists and toleration.value:
        yield (
            f"the value {shown(toleration.value)} with Exists",
            'leave the value out, or set operator="Equal"',
        )
    if toleration.tolerationSeconds is not None and toleration.effect != "NoExecute":
        yield f"{toleration.tolerationSeconds} tolerationSeconds", 'set effect="NoExecute", or leave them out'
    if not exists and toleration.value and not is_label_value(toleration.value):
        yield f"the value {shown(toleration.value)}", 'at most 63 letters, digits, "-", "_", "."'


def is_label_value(value: str) -> bool:
    """Whether Kubernetes takes this as the value of a label."""
    return _LABEL_VALUE.fullmatch(value) is not None


def is_key(key: str) -> bool:
    """Whether Kubernetes takes this as the key of a label: `name` or `domain/name`."""
    domain, slash, name = key.rpartition("/")
    if slash and not (len(domain) <= 253 and _DOMAIN.fullmatch(domain)):
        return False
    return _LABEL_NAME.fullmatch(name) is not None


def _mount(who: str, mount: Mount, settings: Settings) -> Problems:
    for what, remedy in _mount_mistakes(mount, settings):
        yield Problem(f"{who} mounts {what}", remedy, (mount.where,))


def _mount_mistakes(mount: Mount, settings: Settings) -> Iterator[tuple[str, str]]:
    if ":" in mount.mount_path:
        yield f"at {shown(mount.mount_path)}", 'a mount_path has no ":"'
    match mount:
        case NfsMount(server=server, path=path):
            if not server or not path.startswith("/"):
                yield f"{shown(path)} of the NFS server {shown(server)}", "name a server and an absolute path"
            if settings.pod_security == "restricted":
                yield (
                    "an NFS folder",
                    'the Pod Security level "restricted" forbids it; use a claim in pod_yml',
                )
        case HostPathMount(path=path, hostpath_type=kind):
            if settings.pod_security != "privileged":
                yield "a path of the host", "ask for it with the config symphony:podSecurity privileged"
            if not path.startswith("/") or ".." in path.split("/"):
                yield f"the host's {shown(path)}", 'give an absolute path without ".."'
            if kind not in _HOSTPATH_TYPES:
                yield (
                    f"a host path of type {shown(kind)}",
                    f"expected one of: {', '.join(_HOSTPATH_TYPES[1:])}",
                )
        case SecretMount(secret_name=secret, default_mode=mode):
            if len(secret) > 253 or not _DOMAIN.fullmatch(secret):
                yield f"the Secret {shown(secret)}", "give the name of a Secret in the namespace"
            if mode is not None and not 0 <= mode <= 0o777:
                yield f"a Secret with mode {mode}", "give a file mode such as 0o400"
        case GitRepoMount(repository=repository, revision=revision):
            if not repository or not revision:
                yield f"the git repository {shown(repository)} at {shown(revision)}", "name both"
        case _:
            pass


def _pod(
    who: str, processes: tuple[ProcessSpec, ...], shared: tuple[Mount, ...], spec: ExperimentSpec
) -> Problems:
    """What only shows when the processes of a pod are seen together."""
    named: dict[str, Mount] = {}
    for mount in (*shared, *(mount for process in processes for mount in process.mounts)):
        if volumes.name_of(mount) in volumes.OWN:
            yield Problem(
                f"{who} has a volume called {shown(volumes.name_of(mount))}",
                "that name is symphony's own; use another",
                (mount.where,),
            )
        other = named.setdefault(volumes.name_of(mount), mount)
        if volumes.source(other) != volumes.source(mount) or type(other) is not type(mount):
            yield Problem(
                f"{who} has two different volumes called {shown(volumes.name_of(mount))}",
                "give one of them another name",
                (other.where, mount.where),
            )
        for setting, folder in (("secrets", volumes.SECRETS_FOLDER), ("configs", volumes.CONFIGS_FOLDER)):
            if getattr(spec, setting) and mount.mount_path.rstrip("/") == folder:
                yield Problem(
                    f"{who} mounts at {folder}, where the experiment's {setting} lie",
                    "give another mount_path",
                    (mount.where, spec.at(setting)),
                )
    size = sum(_size(process, spec) for process in processes)
    if size > MAX_POD:
        yield Problem(
            f"{who} has {size} bytes of commands and variables, more than the {MAX_POD} that a pod can hold",
            "put them into files",
            (processes[0].where,),
        )


def _size(process: ProcessSpec, spec: ExperimentSpec) -> int:
    texts = [*(process.command or ()), *process.args, *process.cmds, *process.preamble_cmds]
    texts += [text for pair in {**spec.env, **process.env}.items() for text in pair]
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def _raw(who: str, setting: str, given: Mapping[str, Any], part: _Thing, settings: Settings) -> Problems:
    """What is written into a manifest may not change whose it is, nor leave the box unasked."""
    where, judge = (part.at(setting),), overrides.of_pod if setting == "pod_yml" else overrides.of_container
    for what, remedy in judge(given, privileged=settings.pod_security == "privileged"):
        yield Problem(f"{setting} of {who} {what}", remedy, where)
    for image in overrides.images(given):
        yield from _image(f"{setting} of {who}", image, where)


def _image(who: str, image: str, where: tuple[Location, ...]) -> Problems:
    if not _IMAGE.fullmatch(image):
        remedy = "an image is written [host/]name[:tag], its name in small letters"
        yield Problem(f"{who} has the image {shown(image)}", remedy, where)
