"""The Kubernetes backend's `expand`: its limits, and the registration of a plan's objects."""

from __future__ import annotations

import hashlib
import platform
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

import pulumi

from symphony.backends import local_files
from symphony.backends.expand import ComponentInputs, Components, Context
from symphony.backends.kubernetes import declaration, inventory, nodes
from symphony.backends.kubernetes.api import kubeconfig
from symphony.backends.kubernetes.api.client import Client, Refused, path_of
from symphony.backends.kubernetes.api.fields import mapping, text
from symphony.backends.kubernetes.backend import BACKEND
from symphony.backends.kubernetes.manifests import labels, workloads
from symphony.backends.kubernetes.manifests.render import Manifest, Manifests
from symphony.backends.kubernetes.prepare import (
    ATTEMPT,
    DIGEST,
    ClusterConnection,
    Prepared,
    cluster_of,
    connection_of,
    find_cluster,
)
from symphony.backends.kubernetes.prepare import prepare as prepare
from symphony.backends.kubernetes.settings import Settings, settings_of
from symphony.errors import SymphonyError
from symphony.placement.pool import Pool
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.plan import PlannedImage
from symphony.plan.problems import Problem
from symphony.plan.rules import servers_by_service
from symphony.plan.services import fixed_ports, used_variables
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.pod import Place

# Below the range of ports that Linux uses for outgoing connections.
_FIRST, _LAST = 20_000, 29_999
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Seconds that the cluster may take for an object, besides the grace period of its processes.
_SECONDS = 120


def limits(spec: ExperimentSpec, context: Context) -> BackendLimits:
    """Return the limits of Kubernetes, and the experiment's problems."""
    chosen, namespace = settings_of(context), context.physical_name
    sizes, unreadable = local_files.sizes(spec)
    offline = replace(offline_limits(spec, chosen, namespace, sizes), unreadable=unreadable)
    if context.offline:
        cluster = find_cluster(chosen.cluster, context.project) if chosen.cluster else None
        return replace(offline, pools=cluster.pools if cluster else (), pools_are_known=cluster is not None)
    client = connection_of(context).client
    problems = [*offline.problems, *platform_problems(client, context.images)]
    if conflict := inventory.namespace_conflict(
        client, namespace, context.owner, create=chosen.create_namespace
    ):
        why, remedy = conflict
        problems.append(Problem(f"the namespace {namespace} {why}", remedy, (spec.where,)))
    return replace(
        offline,
        problems=tuple(problems),
        pools=_pools(spec, context, client),
        changed_files=_changed_files(client, namespace, chosen, spec),
    )


def offline_limits(
    spec: ExperimentSpec, settings: Settings, namespace: str, sizes: Mapping[str, int] | None = None
) -> BackendLimits:
    """Return the limits without what only the cluster knows; sizes: the bytes of each secret and config."""
    return BackendLimits(
        backend="kubernetes",
        physical_name=namespace,
        starts="image",
        supports=BACKEND.settings,
        one_host=False,
        host_of=f"{settings.object_name('{service}')}.{namespace}.svc",
        bind_host="0.0.0.0",
        names_are_dns_labels=True,
        ports=choose_ports(spec),
        defaults={"image": settings.image},
        problems=tuple(declaration.check(spec, settings, namespace, sizes or {})),
    )


def choose_ports(spec: ExperimentSpec) -> dict[str, int]:
    """Return service -> port for services that set no port.

    A port depends only on the service's name, except for collisions within a pod, so it rarely changes.
    """
    wanted = fixed_ports(spec)
    taken: dict[str, set[int]] = defaultdict(set)
    pod_of = {name: servers[0][0].partition("/")[0] for name, servers in servers_by_service(spec).items()}
    for name, port in wanted.items():
        if port is not None:
            taken[pod_of[name]].add(port)
    chosen: dict[str, int] = {}
    for name in sorted(name for name, port in wanted.items() if port is None):
        chosen[name] = _free(name, taken[pod_of[name]])
        taken[pod_of[name]].add(chosen[name])
    return chosen


def _free(name: str, taken: set[int]) -> int:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    span = _LAST - _FIRST + 1
    start = int.from_bytes(digest[:4], "big") % span
    offsets = ((start + step) % span for step in range(span))
    return next(port for port in (_FIRST + offset for offset in offsets) if port not in taken)


def platform_problems(client: Client, images: Sequence[PlannedImage]) -> Iterator[Problem]:
    """Yield images built for another architecture; their pods would fail with `exec format error`."""
    if not images or not (architectures := _architectures(client)):
        return
    machine = platform.machine().lower()
    for image in images:
        # Images reports a platform without a slash.
        platforms = (image.platform or f"linux/{_ARCHITECTURES.get(machine, machine)}").split(",")
        built_for = {platform_.partition("/")[2].partition("/")[0] for platform_ in platforms} - {""}
        if built_for and not built_for & architectures:
            built = f"image {image.name} is built for {', '.join(sorted(built_for))}"
            what = f"{built}, but the nodes are {', '.join(sorted(architectures))}"
            yield Problem(what, f'set platform="linux/{min(architectures)}"', (image.where,))


def _architectures(client: Client) -> set[str]:
    """Return the architectures of the cluster's nodes; empty if the user may not list nodes."""
    try:
        bodies = client.items(path_of("nodes"))
    except Refused:
        return set()
    return {text(node, "status", "nodeInfo", "architecture") for node in bodies} - {""}


def _changed_files(client: Client, namespace: str, chosen: Settings, spec: ExperimentSpec) -> tuple[str, ...]:
    """Return the files that an `up` would change in the cluster; empty if the experiment is not up."""
    changes: list[str] = []
    kinds = (
        ("secret", "secrets", labels.SECRETS, spec.secrets),
        ("config", "configmaps", labels.CONFIGS, spec.configs),
    )
    for kind, resource, name, files in kinds:
        live = client.find(path_of(resource, namespace, chosen.object_name(name))) if files else None
        if live is not None:
            decode = b64decode if kind == "secret" else str.encode
            data = {file: decode(content) for file, content in mapping(live, "data").items()}
            binary = {file: b64decode(content) for file, content in mapping(live, "binaryData").items()}
            changes += local_files.changes(kind, files, {**data, **binary})
    return tuple(changes)


def image_registry(context: Context) -> str:
    """Return the registry of the cluster's stack."""
    cluster = cluster_of(context)
    return cluster.registry if cluster else ""


def _pools(spec: ExperimentSpec, context: Context, client: Client) -> tuple[Pool, ...]:
    """Return the pools of the cluster's stack, else the live ones if a process asks to be placed."""
    if (cluster := cluster_of(context)) is not None:
        return cluster.pools
    parts = (*spec.groups, *(process for _, process in spec.members()))
    return nodes.read_pools(client) if any(part.place != Place() for part in parts) else ()


def component_inputs(prepared: Prepared) -> dict[str, ComponentInputs]:
    """Return the inputs that each process's component has besides its plan, by path."""
    plan = prepared.plan
    by_path: dict[str, ComponentInputs] = {}
    for group, manifest in prepared.manifests.pods.values():
        shared = {
            "fingerprint": workloads.fingerprint(manifest),
            "controller": workloads.controller_of(manifest),
        }
        for name in workloads.names_of(manifest):
            path = f"{group}/{name}" if group else name
            digests = workloads.secret_digests(manifest, name)
            by_path[path] = {**shared, "secret_digests": digests}
    return {
        process.path: {**by_path[process.path], "services": used_variables(plan, process)}
        for process in plan.processes
    }


def expand(prepared: Prepared, context: Context, components: Components) -> None:
    """Register every object of the plan."""
    if context.offline:
        return
    manifests = prepared.manifests
    client, namespace = prepared.connection.client, prepared.plan.physical_name
    if manifests.namespace is None:
        cluster_id = inventory.identifier(client, namespace)
    else:
        cluster_id = inventory.recorded_identifier(client, namespace)
        annotation = {labels.CLUSTER: cluster_id}
        manifests = replace(manifests, namespace=labels.annotated(manifests.namespace, annotation))
    provider = _provider(components.experiment, prepared.connection, cluster_id)
    deadline = _SECONDS + _grace(manifests, prepared.grace)
    if images := [resource.image for resource in components.images.values()]:
        pulumi.Output.all(*images).apply(lambda _: _delete_replaced(prepared))
    else:
        # Before any pod is created, so that a waiting pod does not see the previous end of its dependency.
        _delete_replaced(prepared)
    _Registration(components, provider, deadline, prepared.replaced).register(manifests)


def manifests(prepared: Prepared) -> list[Manifest]:
    """Return the objects of the plan, with the values of Secrets masked."""
    return [
        {**body, "data": dict.fromkeys(body["data"], "***")} if body["kind"] == "Secret" else body
        for body in prepared.manifests.all()
    ]


@dataclass(frozen=True)
class _Registration:
    """Registers manifests: pods under their processes and groups, other objects under the experiment."""

    components: Components
    provider: pulumi.ProviderResource
    deadline: int
    replaced: frozenset[str]

    def register(self, manifests: Manifests) -> None:
        experiment = self.components.experiment
        namespace = None
        if manifests.namespace is not None:
            namespace = self._object(manifests.namespace, experiment, [], None)
        first: list[pulumi.Resource] = [namespace] if namespace is not None else []
        # Secrets are encrypted in the state and hidden in output.
        files = [
            {**file, "data": pulumi.Output.secret(file["data"])} if file["kind"] == "Secret" else file
            for file in manifests.files
        ]
        before = [self._object(file, experiment, first, namespace) for file in files]
        rights = [*first]
        for manifest in manifests.supervisor:
            is_job = manifest["kind"] == workloads.JOB
            ignored = ["spec"] if is_job and manifest["metadata"]["name"] not in self.replaced else []
            replaced_for = [DIGEST] if is_job else []
            made = self._object(
                manifest, experiment, [*rights], namespace, replaced_for=replaced_for, ignored=ignored
            )
            rights.append(made)
        for manifest in manifests.services.values():
            self._object(manifest, experiment, first, namespace, replaced_for=["spec.clusterIP"])
        processes, groups = self.components.processes, self.components.groups
        for name, (group, manifest) in manifests.pods.items():
            self._pod(manifest, groups[name] if group else processes[name], [*first, *before], namespace)

    def _pod(
        self,
        manifest: Manifest,
        parent: pulumi.Resource,
        after: list[pulumi.Resource],
        namespace: pulumi.Resource | None,
    ) -> None:
        # Admission may have rewritten the spec, as GKE Autopilot does with requests, and Pulumi's plugin
        # compares with the cluster. So the spec is ignored, and the digest decides about a replacement.
        ignored = [] if manifest["metadata"]["name"] in self.replaced else ["spec"]
        images = self.components.images
        pinned = workloads.pin_images(manifest, {name: image.image for name, image in images.items()})
        # After all builds, so that no pod ends if a build fails.
        after = [*after, *images.values()]
        self._object(pinned, parent, after, namespace, replaced_for=[DIGEST], ignored=ignored)

    def _object(
        self,
        manifest: Mapping[str, Any],
        parent: pulumi.Resource,
        after: list[pulumi.Resource],
        namespace: pulumi.Resource | None,
        *,
        replaced_for: Sequence[str] = (),
        ignored: Sequence[str] = (),
    ) -> pulumi.CustomResource:
        seconds = f"{self.deadline}s"
        options = pulumi.ResourceOptions(
            parent=parent,
            provider=self.provider,
            depends_on=after,
            deleted_with=namespace,
            delete_before_replace=True,
            replace_on_changes=[ATTEMPT, *replaced_for],
            ignore_changes=[*ignored],
            custom_timeouts=pulumi.CustomTimeouts(create=seconds, update=seconds, delete=seconds),
        )
        kind = str(manifest["kind"])
        type_ = workloads.TYPES.get(kind, f"kubernetes:core/v1:{kind}")
        return pulumi.CustomResource(type_, manifest["metadata"]["name"], dict(manifest), options)


def _delete_replaced(prepared: Prepared) -> None:
    """Delete all pods to replace at once."""
    for path, uid in prepared.ending.items():
        # If this fails, the engine deletes the object itself and reports the reason.
        with suppress(SymphonyError):
            prepared.connection.client.delete(path, uid)


def _grace(manifests: Manifests, default: int) -> int:
    """Return the longest grace period of a pod in seconds; pod_yml may override the settings."""
    specs = [workloads.pod_in(manifest)["spec"] for _, manifest in manifests.pods.values()]
    return max([default, *(int(spec.get("terminationGracePeriodSeconds") or 0) for spec in specs)])


def _provider(
    experiment: pulumi.Resource, connection: ClusterConnection, cluster_id: str
) -> pulumi.ProviderResource:
    """Register the provider of all objects, bound to a context so that `delete` finds the same cluster."""
    is_secret = kubeconfig.is_text(connection.kubeconfig) and kubeconfig.holds_credentials(
        connection.kubeconfig
    )
    values: dict[str, Any] = {
        "context": connection.client.access.context or None,
        "clusterIdentifier": cluster_id,
        "kubeconfig": pulumi.Output.secret(connection.kubeconfig)
        if is_secret
        else connection.kubeconfig or None,
        # ConfigMaps and Secrets are updated in place; pods read them when they start.
        "enableConfigMapMutable": "true",
        "enableSecretMutable": "true",
        # Objects of an interrupted run are adopted; `prepare` has refused foreign objects before.
        "upsertExistingObjects": "true",
        "enablePatchForce": "true",
    }
    inputs = {name: value for name, value in values.items() if value is not None}
    # The engine runs the plugin that matches the SDK package.
    options = pulumi.ResourceOptions(parent=experiment, version=metadata.version("pulumi-kubernetes"))
    return pulumi.ProviderResource("kubernetes", "kubernetes", inputs, options)
