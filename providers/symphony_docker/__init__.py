"""The Docker provider: container images as Pulumi resources; import the module of the concept you need."""
