"""Experiments as Hypothesis makes them: what users may write, right and now and then wrong."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.mounts import (
    EmptyDirMount,
    GitRepoMount,
    HostPathMount,
    Mount,
    NfsMount,
    SecretMount,
    SharedMemoryMount,
)
from symphony.spec.pod import PodSettings, Toleration
from symphony.spec.process import ProcessSpec, Resources
from symphony.spec.services import ServiceUse

LABEL = st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
ANY_LABEL = st.one_of(
    LABEL, LABEL, LABEL, st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
TEXTS = st.lists(st.one_of(TEXT, st.sampled_from(["$(HOME)", "$$", "-x", ""])), max_size=4).map(tuple)
VARIABLE = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
ENV = st.dictionaries(VARIABLE, TEXT, max_size=4)
VALUE = st.one_of(st.from_regex(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", fullmatch=True), TEXT)
KEY = st.one_of(
    st.from_regex(r"([a-z]{1,9}\.[a-z]{2,3}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?", fullmatch=True),
    TEXT,
)
CPU = st.sampled_from([None, None, "500m", 1, 0.5, "2", "1e1", 0, "1n", "3000000000000"])
MEMORY = st.sampled_from([None, None, "64Mi", "1Gi", "1G", 1_000_000, "1.5Gi", "1Ki", "5e6", "1m"])
PORT = st.one_of(st.none(), st.integers(1, 65535))
PATH = st.from_regex(r"/[a-z]{1,8}(/[a-z.]{1,8}){0,2}", fullmatch=True)
IMAGE = st.sampled_from(
    ["busybox", "localhost:5000/symphony/busybox:1", "a.b/c/d_e:v1.2", "x@sha256:" + "0" * 64, "Upper/case"]
)
# What the configuration of a stack chooses, beside what a test says itself.
OUTSIDE: tuple[dict[str, Any], ...] = (
    {},
    {"expose": "NodePort"},
    {"expose": "LoadBalancer", "source_ranges": ("203.0.113.0/24", "2001:db8::/32")},
)
PULL_SECRETS = ((), ("mine",), ("mine", "of.another-team"))
CHOSEN: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda outside, **chosen: {**outside, **chosen},
    st.sampled_from(OUTSIDE),
    controller=st.sampled_from(["Pod", "Job"]),
    pull_secrets=st.sampled_from(PULL_SECRETS),
)
NAME = st.one_of(st.none(), LABEL)

MOUNT: st.SearchStrategy[Mount] = st.one_of(
    st.builds(NfsMount, server=LABEL, path=PATH, mount_path=PATH, name=NAME),
    st.builds(
        SecretMount, secret_name=LABEL, mount_path=PATH, default_mode=st.sampled_from([None, 0o400, 0o1777])
    ),
    st.builds(GitRepoMount, repository=st.just("https://git.test/x"), revision=LABEL, mount_path=PATH),
    st.builds(
        HostPathMount,
        path=PATH,
        mount_path=PATH,
        hostpath_type=st.sampled_from(["", "Directory", "DirectoryOrCreate", "File", "Socket", "Folder"]),
    ),
    st.builds(EmptyDirMount, name=LABEL, use_memory=st.booleans(), mount_path=PATH),
    st.builds(SharedMemoryMount, name=st.just("devshm"), mount_path=st.just("/dev/shm")),
)
MOUNTS = st.lists(MOUNT, max_size=2).map(tuple)
# Fields that a user adds and that the API server knows.
CONTAINER_YML: tuple[dict[str, Any], ...] = (
    {"stdin": True, "tty": True, "workingDir": "/tmp"},
    {"env": [{"name": "OWN_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]},
    {"readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 3}, "ports": [{"containerPort": 80}]},
    {"lifecycle": {"preStop": {"exec": {"command": ["true"]}}}},
    {"resources": {"limits": {"ephemeral-storage": "1Gi"}}},
    {"securityContext": {"readOnlyRootFilesystem": True, "runAsUser": 1000}},
)
POD_YML: tuple[dict[str, Any], ...] = (
    {"metadata": {"annotations": {"mine/of": "any text"}, "labels": {"mine": "1"}}},
    {"spec": {"hostname": "own", "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["x.test"]}]}},
    {"spec": {"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}, "activeDeadlineSeconds": 60}},
    {"spec": {"containers": [{"name": "side", "image": "busybox", "command": ["sleep", "9"]}]}},
    {"spec": {"volumes": [{"name": "own", "downwardAPI": {"items": []}}], "shareProcessNamespace": True}},
    {"spec": {"securityContext": {"runAsUser": 1000}, "terminationGracePeriodSeconds": 3}},
)
TOLERATION = st.builds(
    Toleration,
    key=st.one_of(st.none(), KEY),
    operator=st.sampled_from([None, "Exists", "Equal"]),
    value=st.one_of(st.none(), VALUE),
    effect=st.sampled_from([None, "NoSchedule", "PreferNoSchedule", "NoExecute"]),
)
POD = st.builds(
    PodSettings,
    node_selector=st.dictionaries(KEY, VALUE, max_size=1),
    tolerations=st.lists(TOLERATION, max_size=1).map(tuple),
    restart_policy=st.sampled_from([None, "Always", "OnFailure", "Never"]),
    labels=st.dictionaries(KEY, VALUE, max_size=1),
    pod_yml=st.sampled_from([{}, *POD_YML]),
)
NO_POD = st.just(PodSettings())


@st.composite
def processes(
    draw: st.DrawFn, names: list[str], services: list[str], grouped: bool
) -> tuple[ProcessSpec, ...]:
    return tuple(
        ProcessSpec(
            name,
            command=draw(st.one_of(st.none(), st.just(("sh", "-c")))),
            args=draw(TEXTS),
            env=draw(ENV),
            image=draw(st.one_of(st.none(), IMAGE)),
            image_pull_policy=draw(st.sampled_from([None, "Always", "IfNotPresent", "Never"])),
            binds=tuple(
                ServiceUse(each, draw(PORT))
                for each in (services.pop() for _ in range(min(1, len(services))))
            ),
            exposes=tuple(
                ServiceUse(services.pop(), draw(PORT))
                for _ in range(min(len(services), draw(st.integers(0, 1))))
            ),
            resource_request=Resources(draw(CPU), draw(MEMORY)),
            resource_limit=Resources(draw(CPU), draw(MEMORY), draw(st.sampled_from([None, None, 0, 2]))),
            mounts=draw(MOUNTS),
            container_yml=draw(st.sampled_from([{}, *CONTAINER_YML])),
            pod=draw(NO_POD if grouped else st.one_of(NO_POD, POD)),
        )
        for name in names
    )


@st.composite
def experiments(draw: st.DrawFn) -> ExperimentSpec:
    """An experiment of a few processes and groups."""
    services = draw(st.lists(ANY_LABEL, max_size=4, unique=True))
    names = draw(st.lists(LABEL, min_size=1, max_size=4, unique=True))
    free = draw(processes(names[:2], services, grouped=False))
    groups = tuple(
        ProcessGroupSpec(
            name,
            processes=draw(
                processes(
                    draw(st.lists(ANY_LABEL, min_size=1, max_size=3, unique=True)), services, grouped=True
                )
            ),
            env=draw(ENV),
            mounts=draw(MOUNTS),
            pod=draw(st.one_of(NO_POD, POD)),
        )
        for name in names[2:]
    )
    secrets = draw(st.sampled_from([(), (), ("/etc/hostname",)]))
    configs = draw(st.sampled_from([(), (), ("train.yaml",), ("/etc/hostname", "a/table")]))
    return ExperimentSpec(
        "generated", processes=free, groups=groups, env=draw(ENV), secrets=secrets, configs=configs
    )
