"""Commands, files and ports of containers."""
