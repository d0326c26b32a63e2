"""Files by their content: the files of a folder that count, and their digests, which are cached."""
