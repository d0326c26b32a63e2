"""Finds what Kubernetes would refuse of a declaration, and no dry run of a pod would show. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from symphony.backends.kubernetes.manifests import controllers, labels, pod
from symphony.backends.kubernetes.manifests.render import REFUSED_CHARACTERS
from symphony.backends.kubernetes.settings import Settings
from symphony.backends.kubernetes.validation import pod_yml
from symphony.plan.names import MAX_NAME, as_label, shown
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec, path_of
from symphony.spec.location import Location
from symphony.spec.pod import GitRepoMount, HostPathMount, Mount, NfsMount
from symphony.spec.process import ProcessSpec

Problems = Iterator[Problem]
_Part = ProcessSpec | ProcessGroupSpec

# etcd takes 1.5 MiB a request; what the server adds to a pod has to fit as well.
MAX_POD = 1_000_000
# The API server's own limit of the contents of a Secret; a ConfigMap is counted with its base64.
MAX_FILES = 1_048_576
_RESERVED = re.compile(r"default|kube-.*|gke-.*|gmp-.*|istio-.*|cert-manager|kubernetes-dashboard")
_IMAGE = re.compile(
    r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:\d+)?/)?"
    r"[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@sha256:[0-9a-f]{64})?"
)

_USE_A_FILE = "pass it in a file of configs or secrets: a Kubernetes manifest cannot hold it"


def check(spec: ExperimentSpec, settings: Settings, namespace: str, sizes: Mapping[str, int]) -> Problems:
    """Yield every problem.

    Args:
        spec: The declaration, whose types are right.
        settings: Those of the stack.
        namespace: Where the experiment is to run.
        sizes: The bytes of each secret and config file.
    """
    if _RESERVED.fullmatch(namespace):
        remedy = "rename the stack, or set symphony:namespace to another"
        yield Problem(f"the namespace {shown(namespace)} belongs to the cluster", remedy, (spec.where,))
    yield from _shared(spec, settings)
    yield from _files("secrets", "secret file", "Secret", spec.secrets, spec, sizes)
    yield from _files("configs", "config file", "ConfigMap", spec.configs, spec, sizes)
    yield from _image("the experiment", spec.image, spec.where)
    for who, part in spec.parts():
        yield from _part_of(who, part, settings)
    for who, owner in spec.owners():
        yield from _texts(who, owner)
    for group, process in spec.members():
        path = path_of(group, process)
        yield from _image(path, process.image, process.at("image"))
        for use in (*process.binds, *process.exposes):
            if (label := as_label(use.name)) and not label[0].isalpha():
                what = f"{path} serves {shown(use.name)}, which begins with a digit"
                yield Problem(what, "the name of a Kubernetes Service begins with a letter", (use.where,))
        yield from _yml(path, "container_yml", process.container_yml, process, settings)
    for process in spec.processes:
        yield from _pod(process.name, (process,), (), spec)
    for group in spec.groups:
        yield from _pod(f"process group {group.name}", group.processes, group.mounts, spec)


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
    names = [(part.name, part.where) for part in (*spec.processes, *spec.groups)]
    uses = [use for _, process in spec.members() for use in (*process.binds, *process.exposes)]
    names += [(use.name, use.where) for use in uses]
    for name, where in names:
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


def _texts(who: str, owner: ExperimentSpec | _Part) -> Problems:
    """Yield the texts with a character that Pulumi's plugin would refuse or change."""
    texts = [(f"env {name}", text) for name, text in owner.env.items()]
    for setting in ("command", "args", "cmds", "preamble_cmds"):
        texts += [(setting, text) for text in getattr(owner, setting, None) or ()]
    for setting, text in texts:
        if character := _refused_character(text):
            what = f"{setting} of {who} contains the control character {character}: {shown(text, 30)}"
            yield Problem(what, _USE_A_FILE, (owner.at(setting),))


def _refused_character(text: str) -> str:
    match = REFUSED_CHARACTERS.search(text)
    return f"U+{ord(match[0]):04X}" if match else ""


def _part_of(who: str, part: _Part, settings: Settings) -> Problems:
    for key in part.pod.labels:
        if key.startswith("symphony/") or key == labels.MANAGED_BY:
            what = f"{who} sets the label {shown(key)}"
            yield Problem(what, "it is symphony's own; use another", (part.at(f"labels {key}"),))
    if settings.controller != controllers.POD and part.pod.restart_policy == "Always":
        yield Problem(
            f'{who} sets restart_policy to "Always", and what a {settings.controller} makes comes to an end',
            'set "OnFailure", or leave out the config symphony:controller',
            (part.at("restart_policy"),),
        )
    for mount in part.mounts:
        for what, remedy in _mount_mistakes(mount, settings):
            yield Problem(f"{who} mounts {what}", remedy, (mount.where,))
    yield from _yml(who, "pod_yml", part.pod.pod_yml, part, settings)


def _mount_mistakes(mount: Mount, settings: Settings) -> Iterator[tuple[str, str]]:
    match mount:
        case NfsMount() if settings.pod_security == "restricted":
            yield "an NFS folder", 'the Pod Security level "restricted" forbids it; use a claim in pod_yml'
        case HostPathMount() if settings.pod_security != "privileged":
            yield "a path of the host", "ask for it with the config symphony:podSecurity privileged"
        case GitRepoMount(repository=repository, revision=revision) if not repository or not revision:
            yield f"the git repository {shown(repository)} at {shown(revision)}", "name both"
        case _:
            pass


def _pod(
    who: str, processes: tuple[ProcessSpec, ...], shared: tuple[Mount, ...], spec: ExperimentSpec
) -> Problems:
    """Yield what only shows when the processes of a pod are seen together."""
    by_name: dict[str, Mount] = {}
    for mount in (*shared, *(mount for process in processes for mount in process.mounts)):
        name = pod.volume_name(mount)
        if name in pod.OWN_VOLUMES:
            remedy = "that name is symphony's own; use another"
            yield Problem(f"{who} has a volume called {shown(name)}", remedy, (mount.where,))
        other = by_name.setdefault(name, mount)
        if pod.volume_source(other) != pod.volume_source(mount) or type(other) is not type(mount):
            yield Problem(
                f"{who} has two different volumes called {shown(name)}",
                "give one of them another name",
                (other.where, mount.where),
            )
        for setting, folder in (("secrets", pod.SECRETS_FOLDER), ("configs", pod.CONFIGS_FOLDER)):
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


def _yml(who: str, setting: str, yml: Mapping[str, Any], part: _Part, settings: Settings) -> Problems:
    judge = pod_yml.of_pod if setting == "pod_yml" else pod_yml.of_container
    for what, remedy in judge(yml, privileged=settings.pod_security == "privileged"):
        yield Problem(f"{setting} of {who} {what}", remedy, (part.at(setting),))
    if character := _refused_character(json.dumps(yml, ensure_ascii=False, default=str)):
        what = f"{setting} of {who} contains the control character {character}"
        yield Problem(what, _USE_A_FILE, (part.at(setting),))


def _image(who: str, image: object, where: Location) -> Problems:
    if isinstance(image, str) and not _IMAGE.fullmatch(image):
        remedy = "an image is written [host/]name[:tag], its name in small letters"
        yield Problem(f"{who} has the image {shown(image)}", remedy, (where,))
