"""Reads, once, at launch, what a process is made of beside its settings."""
