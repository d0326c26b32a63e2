"""Renders a plan as Kubernetes objects, as pure functions."""
