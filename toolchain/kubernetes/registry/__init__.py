"""The image registry of the cluster, and images built for it."""
