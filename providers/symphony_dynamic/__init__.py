"""What dynamic providers of Pulumi share: how they are served, and how ours answer."""
