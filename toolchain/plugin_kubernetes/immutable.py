"""The fields whose change Kubernetes refuses, so that the object is replaced; for `differences`."""

from __future__ import annotations

_IDENTITY = ("metadata.name", "metadata.namespace")

_POD = [
    "affinity",
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostname",
    "imagePullSecrets",
    "nodeName",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "readinessGates",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "volumes",
]

_CONTAINER = [
    "args",
    "command",
    "env",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resources",
    "securityContext",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
]

_VOLUME_SOURCES = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
]

_FIELDS = {
    "v1 ConfigMap": ("data", "binaryData"),
    "v1 PersistentVolume": tuple(f"spec.{source}" for source in _VOLUME_SOURCES),
    "v1 PersistentVolumeClaim": ("spec",),
    "v1 Pod": (
        *(f"spec.{name}" for name in _POD),
        *(f"spec.containers.*.{name}" for name in _CONTAINER),
        *(f"spec.initContainers.*.{name}" for name in _CONTAINER),
    ),
    "v1 ResourceQuota": ("spec.scopes",),
    "v1 Secret": ("type", "data", "stringData"),
    "v1 Service": ("spec.clusterIP",),
    "apps/v1 Deployment": ("spec.selector",),
    "apps/v1 DaemonSet": ("spec.selector",),
    "apps/v1 StatefulSet": (
        "spec.podManagementPolicy",
        "spec.revisionHistoryLimit",
        "spec.selector",
        "spec.serviceName",
        "spec.volumeClaimTemplates",
    ),
    "batch/v1 Job": ("spec.completions", "spec.parallelism", "spec.selector", "spec.template"),
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding": ("roleRef",),
    "rbac.authorization.k8s.io/v1 RoleBinding": ("roleRef",),
    "storage.k8s.io/v1 StorageClass": ("parameters", "provisioner"),
}


def fields(api_version: str, kind: str, mutable: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Paths into the object, `*` for any place of a list; kinds in `mutable` keep only their identity."""
    own = () if kind in mutable else _FIELDS.get(f"{api_version} {kind}", ())
    return tuple(tuple(path.split(".")) for path in (*_IDENTITY, *own))
