"""What Kubernetes would refuse, found before anything starts."""
