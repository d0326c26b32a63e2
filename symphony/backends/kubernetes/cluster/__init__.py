"""The objects of an experiment in its cluster, and their owners."""
