"""A fake of Pulumi's gcp plugin for machines that cannot download it: clusters of simulated nodes."""
