"""What runs on the cluster beside its own programs: names, simulated nodes, JobSets."""
