"""The Docker provider: container images as Pulumi resources."""
