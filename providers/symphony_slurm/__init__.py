"""The Slurm provider: allocations and steps as Pulumi resources, and the supervisor in the job."""
