"""Starts, observes and ends the process trees of an experiment."""
