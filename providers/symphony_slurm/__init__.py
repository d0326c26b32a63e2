"""The Slurm provider: an allocation and its steps as Pulumi resources, and the supervisor inside the job."""
