"""Requests to the API server of a cluster."""
