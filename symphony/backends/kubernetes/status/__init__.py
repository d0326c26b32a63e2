"""The status of pods, services and processes."""
