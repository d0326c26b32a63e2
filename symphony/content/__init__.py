"""Files by their content: which of a folder count, and their digests; what did not change is known."""
