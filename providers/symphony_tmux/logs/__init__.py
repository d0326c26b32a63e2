"""What processes printed, as it lies on disk."""
