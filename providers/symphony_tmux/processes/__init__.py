"""Starts, finds, reads and ends the process trees of an experiment."""
