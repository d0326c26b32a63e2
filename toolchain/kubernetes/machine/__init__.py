"""Changes the machine for the cluster, and puts it back: packages, kernel, network, firewall."""
