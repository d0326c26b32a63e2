"""The command line: parses, asks, prints and sets the exit code; one file a command."""
