"""Changes this machine for the cluster and reverts that: packages, kernel, network, firewall."""
