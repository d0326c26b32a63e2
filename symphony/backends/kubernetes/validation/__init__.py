"""Finds what Kubernetes would refuse, before anything starts."""
