"""A stand-in for Pulumi's Kubernetes plugin where that cannot be downloaded; the engine starts it."""
