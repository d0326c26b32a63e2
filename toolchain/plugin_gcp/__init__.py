"""A stand-in for Pulumi's gcp plugin where that cannot be downloaded: clusters of nodes that do not exist."""
