"""What makes an engine run quicker and changes nothing else."""
