"""Requests to the API server of one cluster."""
