"""The command line: a file for each command, which parses, asks, prints and sets the exit code."""
