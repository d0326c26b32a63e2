"""Commands, files and ports of containers, reached from here."""
