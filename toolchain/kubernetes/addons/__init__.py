"""Add-ons of the cluster: its name server, and simulated nodes."""
