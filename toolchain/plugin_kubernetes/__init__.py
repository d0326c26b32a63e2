"""A stand-in for Pulumi's Kubernetes plugin, for machines that cannot download it; the engine starts it as a program."""
