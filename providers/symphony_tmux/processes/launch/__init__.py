"""What a process is started with: its launch file, environment and limits."""
