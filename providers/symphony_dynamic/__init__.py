"""Serves symphony's dynamic providers to the engine."""
