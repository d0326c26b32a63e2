"""The Pulumi components that users declare: Experiment, ProcessGroup, Process, Image, GkeCluster."""
