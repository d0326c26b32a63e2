"""A cluster on GKE for experiments: copy it, change the pools, and bring it up with `symphony up gke`.

Settings of the stack, under `config:` in stacks/Pulumi.gke.yaml:
gcp:project   the Google Cloud project in which the cluster is created and billed
"""

from symphony import GkeCluster, NodePool

GkeCluster(
    "rl",
    location="us-central1-a",
    pools=[
        # One machine always runs, for the system pods of the cluster.
        NodePool("cpu", "e2-standard-8", min=1, max=8),
        NodePool("memory", "n1-highmem-16", max=4, spot=True),
        NodePool("gpu", "n1-standard-8", accelerator=("nvidia-tesla-v100", 1), max=4),
    ],
)
