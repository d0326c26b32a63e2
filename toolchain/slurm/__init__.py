"""A real Slurm on this machine, for tests: four nodes, and two spare ones."""
