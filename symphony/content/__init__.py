"""Which files of a folder are code, and their digests."""
