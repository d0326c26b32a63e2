"""A cluster on GKE for experiments: copy it, change the pools, and bring it up with `symphony up gke`.

Settings of the stack, under `config:` in stacks/Pulumi.gke.yaml:
gcp:project   the Google Cloud project in which it is made and paid for
"""

from symphony import GkeCluster, NodePool

GkeCluster(
    "rl",
    location="us-central1-a",
    pools=[
        # One machine stays up: it runs what the cluster itself needs.
        NodePool("cpu", "e2-standard-8", min=1, max=8),
        NodePool("memory", "n1-highmem-16", max=4, spot=True),
        NodePool("gpu", "n1-standard-8", accelerator=("nvidia-tesla-v100", 1), max=4),
    ],
)
