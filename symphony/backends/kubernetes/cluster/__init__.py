"""What the cluster holds of an experiment, and whose it is."""
