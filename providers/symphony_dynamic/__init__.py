"""Serves dynamic providers to the engine; the base classes of symphony's own."""
