"""The Kubernetes backend: an experiment is a namespace, a process a container, a service a Service."""

from symphony.backends.registry import Backend

BACKEND = Backend(
    "kubernetes",
    "symphony.backends.kubernetes",
    aliases=("kube", "k8s", "gke"),
    plugins=("kubernetes",),
    settings=frozenset(
        {
            "args",
            "cmds",
            "command",
            "configs",
            "container_yml",
            "depends_on",
            "image",
            "image_pull_policy",
            "labels",
            "liveness_probe",
            "mount_empty_dir",
            "mount_git_repo",
            "mount_host_path",
            "mount_nfs",
            "mount_secret",
            "mount_shared_memory",
            "node_selector",
            "place",
            "pod_yml",
            "primary",
            "preamble_cmds",
            "readiness_probe",
            "resource_limit",
            "resource_request",
            "restart_policy",
            "secret_env",
            "secrets",
            "start_dir",
            "stop_after",
            "termination_delay",
            "tolerations",
        }
    ),
    labels=True,
    cluster="symphony.classic.cluster:KubeCluster",
    stack_settings="symphony.backends.kubernetes.settings:Settings",
)
