"""The Kubernetes backend: an experiment is a namespace, a process a container, a service a Service."""

from symphony.backends.registry import COMMON_SETTINGS, Backend

BACKEND = Backend(
    "kubernetes",
    "symphony.backends.kubernetes",
    aliases=("kube", "k8s", "gke"),
    plugins=("kubernetes",),
    settings=COMMON_SETTINGS
    | {
        "container_yml",
        "image",
        "image_pull_policy",
        "labels",
        "mount_empty_dir",
        "mount_git_repo",
        "mount_host_path",
        "mount_nfs",
        "mount_secret",
        "mount_shared_memory",
        "node_selector",
        "place",
        "pod_yml",
        "resource_request",
        "tolerations",
    },
    names_are_dns_labels=True,
    cluster="symphony.classic.cluster:KubeCluster",
    stack_settings="symphony.backends.kubernetes.settings:Settings",
)
