"""The verbs of the command line, a file for each; they combine the engine and backends, and print nothing."""
