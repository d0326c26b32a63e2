"""Builds the engine, its plugins and a cluster on a machine that cannot download releases."""
