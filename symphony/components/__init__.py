"""Experiment, ProcessGroup and Process: Pulumi components that hold a spec and expand it when launched."""
