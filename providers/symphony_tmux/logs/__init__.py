"""The output of processes, as it lies on disk."""
