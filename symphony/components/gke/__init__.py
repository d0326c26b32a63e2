"""Clusters on GKE as components of a stack of their own."""
