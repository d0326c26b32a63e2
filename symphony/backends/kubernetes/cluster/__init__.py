"""The objects of an experiment in its cluster: which they are, whose they are, their removal."""
