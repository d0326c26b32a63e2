"""A plan as Kubernetes objects: pure."""
