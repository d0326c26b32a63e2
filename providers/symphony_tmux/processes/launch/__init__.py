"""The launch file, environment and limits of a process."""
