"""What the cluster changes on this machine, and puts back."""
