"""The logs of containers as lines."""
