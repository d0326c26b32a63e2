"""What runs on the cluster beside its own programs: names and simulated nodes."""
